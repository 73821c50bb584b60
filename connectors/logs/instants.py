"""Instants in texts such as `2026-11-28T10:00:00.123456789+01:00`, many at once."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc


def milliseconds(texts: pa.StringArray) -> pa.Int64Array:
    """The milliseconds since 1970; null for a text that is no instant with a zone."""
    exact = pc.replace_substring_regex(texts, r"(\.\d{1,6})\d*", r"\1")
    try:
        found = pc.cast(exact, pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:  # there is no such day or hour somewhere: rare, so it may cost Python per text
        found = pa.array([_instant(text) for text in exact.to_pylist()], pa.timestamp("us", "UTC"))
    return pc.divide(found.cast(pa.int64()), 1_000)


def _instant(text: str | None) -> datetime | None:
    try:
        found = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if found is None or found.tzinfo is None else found
