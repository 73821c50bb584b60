"""Transforms, predicates and a converter over records, as authors write them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from headrace.plugins import (
    Record,
    RecordConverter,
    RecordPredicate,
    RecordTransform,
    RetriableError,
    Setting,
)


class Marking(RecordTransform):
    settings = (Setting("name", "x"),)

    def change(self, record: Record) -> Record:
        if isinstance(record.value, str):
            record.value += f" {self.config['name']}"
        elif record.value is not None:
            record.value["name" if "id" in record.value else "mark"] = self.config["name"]
        return record


class Moving(RecordTransform):
    def change(self, record: Record) -> Record:
        headers = [*record.headers, ("more", "y")]
        return Record(record.value, f"{record.key}!", headers, 5, f"{record.topic}-moved", 7)


class Choosing(RecordTransform):
    def change(self, record: Record) -> Any:
        n = record.value["n"]
        if n == 1:
            return None
        if n == 2:
            raise ValueError("not two")
        if n == 3:
            return [record, record]
        return Record({"n": 2**64 if n == 4 else n})


class Misfitting(RecordTransform):
    def change(self, record: Record) -> Record:
        return Record({"id": 1, "more": 2} if record.value["id"] == 1 else {"id": "x"})


class Parsing(RecordTransform):
    def change(self, record: Record) -> Record:
        return Record({"none": True} if record.value is None else json.loads(record.value))


@dataclass
class Parsed:
    id: int


class Declaring(RecordTransform):
    value_schema = Parsed

    def change(self, record: Record) -> Record:
        return Record(Parsed(**json.loads(record.value)))


class Retrying(RecordTransform):
    def change(self, record: Record) -> Record:
        raise RetriableError("later")


class IsOdd(RecordPredicate):
    def matches(self, record: Record) -> bool:
        return bool(record.value["n"] % 2)


class Csv(RecordConverter):
    settings = (Setting("separator", ","),)

    def from_bytes(self, data: bytes) -> Any:
        return data.decode().split(self.config["separator"])

    def to_bytes(self, value: Any) -> bytes:
        return str(self.config["separator"]).join(value).encode()
