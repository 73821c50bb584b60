"""The catalog that a tap is given: what it discovered, with streams selected and metadata added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from headrace.connectors.singer.errors import SingerError

_NEVER: Final = "unsupported"


def selected(discovered: Any, streams: Sequence[str], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the catalog with the streams selected that match one of the patterns, and no others.

    Errors: SingerError for what is no catalog, and for a pattern that matches nothing.
    """
    try:
        found: list[dict[str, Any]] = [dict(one) for one in discovered["streams"]]
        names = {str(one["tap_stream_id"]) for one in found}
    except (KeyError, TypeError, ValueError) as error:
        raise SingerError(f"printed what is no catalog: {error!r}") from error
    for pattern in (*streams, *metadata):
        if not any(fnmatchcase(name, pattern) for name in names):
            known = ", ".join(sorted(names)) or "none"
            raise SingerError(f"has no stream {pattern} of the settings streams and tap.metadata; it has {known}")
    for one in found:
        name = str(one["tap_stream_id"])
        is_wanted = any(fnmatchcase(name, pattern) for pattern in streams)
        more = [of for pattern, of in metadata.items() if fnmatchcase(name, pattern)]
        one["metadata"] = _metadata(one.get("metadata") or (), is_wanted, more)
        one["selected"] = is_wanted  # taps of before metadata read it here
        one["schema"] = {**(one.get("schema") or {}), "selected": is_wanted}
        for of in more:
            one |= {key.replace("-", "_"): of[key] for key in ("replication-method", "replication-key") if key in of}
    return {**discovered, "streams": found}


def _metadata(given: Iterable[Mapping[str, Any]], is_wanted: bool, more: Sequence[Any]) -> list[dict[str, Any]]:
    """Select the stream and all properties that the tap supports."""
    entries = [{**one, "metadata": dict(one.get("metadata") or {})} for one in given]
    if not any(list(one["breadcrumb"]) == [] for one in entries):
        entries.append({"breadcrumb": [], "metadata": {}})
    for one in entries:
        values = one["metadata"]
        values["selected"] = is_wanted and values.get("inclusion") != _NEVER
        if list(one["breadcrumb"]) == []:
            for of in more:
                values |= of
    return entries
