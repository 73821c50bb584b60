"""A dead letter as it lies in its topic: the record, and what its headers tell about the error, ours or Java's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, NamedTuple, Self

from headrace.worker.deadletters.failed_records import PREFIX, RETRY_PREFIX

_VARIES: Final = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")
"""The parts of a message that differ between records with the same cause: quoted texts and numbers."""
_LONGEST: Final = 1_000


class Place(NamedTuple):
    """The place of a letter in the dead letter topic."""

    partition: int
    offset: int


class Cause(NamedTuple):
    """The cause of a failure, equal for records that failed alike."""

    stage: str | None
    class_name: str | None
    exception: str | None
    message: str | None
    """The message without what varies from record to record."""

    @property
    def id(self) -> str:
        """A short name of the cause."""
        return sha256(repr(tuple(self)).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Letter:
    """A dead letter."""

    topic: str
    place: Place
    timestamp: int | None
    key: bytes | None = field(repr=False)
    value: bytes | None = field(repr=False)
    headers: tuple[tuple[str, bytes | None], ...] = field(repr=False)
    """The headers that the record had before it failed."""
    told: Mapping[str, str]
    """The headers about the error and the record's origin, without their prefix."""

    @classmethod
    def of(cls, message: Any) -> Self:
        """Read a message of Kafka's client. Of headers with the same name the last one counts: it is the worker's."""
        kind, stamp = message.timestamp()
        headers = message.headers() or ()
        return cls(
            message.topic(),
            Place(message.partition(), message.offset()),
            stamp if kind else None,
            message.key(),
            message.value(),
            tuple((name, value) for name, value in headers if not name.startswith((PREFIX, RETRY_PREFIX))),
            {
                name.removeprefix(PREFIX): value.decode("utf-8", "replace")
                for name, value in headers
                if name.startswith(PREFIX) and value is not None
            },
        )

    @property
    def size(self) -> int:
        """The bytes of key and value."""
        return len(self.key or b"") + len(self.value or b"")

    @property
    def is_of_source(self) -> bool:
        """True if a source failed with the record: key and value show what was read, before transforms."""
        return "source.partition" in self.told

    @property
    def cause(self) -> Cause:
        """The cause of the failure."""
        message = self.told.get("exception.message")
        alike = None if message is None else _VARIES.sub("…", message[:_LONGEST])
        told = self.told.get
        return Cause(told("stage"), told("class.name"), told("exception.class.name"), alike)

    def __str__(self) -> str:
        return f"the dead letter {self.topic}-{self.place.partition} at offset {self.place.offset}"
