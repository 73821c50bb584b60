"""Schemas and records that the tests of transforms make up."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tests.compat.transform_oracle import Record

LOGICAL: Final = "org.apache.kafka.connect.data."

Fields = Sequence[tuple[str, Mapping[str, Any]]]


def struct(fields: Fields, **more: Any) -> dict[str, Any]:
    members = [{"optional": False, **schema, "field": name} for name, schema in fields]
    return {"type": "struct", "fields": members, "optional": False, **more}


def documents(schema: Mapping[str, Any] | None, payloads: Sequence[Any]) -> list[Record]:
    return [
        Record(json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode())
        for payload in payloads
    ]


def plain(kind: str, payloads: Sequence[Any], **more: Any) -> list[Record]:
    return documents({"type": kind, "optional": False, **more}, payloads)


def texts(*values: str | None) -> list[Record]:
    return [Record(None if value is None else value.encode()) for value in values]


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "name": LOGICAL + name, "version": 1, **more}


def decimal(unscaled: int) -> str:
    return base64.b64encode(unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)).decode()
