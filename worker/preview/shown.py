"""Values as a preview shows them: bytes as text, values of Connect as the JSON of JsonConverter."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from headrace.worker.kafka.record_text import cut
from headrace.worker.preview.model import Header, Stage, StageName

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_LONGEST: Final = 100_000
"""Characters of a text; a preview holds a hundred records, and its answer is read by people."""


def text_of(data: bytes | None) -> str | None:
    """Bytes as the text that they are, else in hex; a text with control characters, as Avro may seem to be, is none."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = ""
    if (data and not text) or _CONTROL.search(text):
        text = f"0x{data.hex()}"
    return cut(text, _LONGEST)


def headers_of(headers: Sequence[dict[str, Any]] | None) -> list[Header]:
    """Headers of a row of records."""
    return [Header(one["key"], text_of(one["value"])) for one in headers or ()]


def bytes_stage(stage: StageName, row: Mapping[str, Any]) -> Stage:
    """The stage of a record as Kafka has it."""
    return Stage(
        stage,
        topic=row["topic"],
        partition=row["partition"],
        timestamp=row["timestamp"],
        key=text_of(row["key"]),
        value=text_of(row["value"]),
        headers=headers_of(row["headers"]),
    )


def value_and_schema(text: bytes | None) -> tuple[Any, Any]:
    """Split what `shown_side` makes of a value; the schema is None if there is none."""
    if text is None:
        return None, None
    shown = parsed(text)
    if isinstance(shown, dict) and shown.keys() == {"schema", "payload"}:
        return shown["payload"], shown["schema"]
    return shown, None


def plain(value: Any) -> Any:
    """A value as JSON has it; what JSON lacks is text."""
    if isinstance(value, bytes):
        return text_of(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in value]
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def parsed(text: bytes | str) -> Any:
    """Parse JSON; a number that a double cannot hold is shown as text, so that none is changed."""
    return json.loads(text, parse_float=_number, parse_constant=str)


def _number(text: str) -> float | str:
    value = float(text)
    return value if Decimal(repr(value)) == Decimal(text) else text
