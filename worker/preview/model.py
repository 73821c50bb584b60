"""The answer of a preview: plain values that become JSON as they are; free of Spark, for REST and the console.

Each record has its stages in the order of its way:

    source:  read, transform …, converted, written
    sink:    fetched, converted, transform …

A sink's `written` are its effects. Transforms that run in Java are one stage, `java`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from headrace.worker.model import Config, Kind

MOST_RECORDS: Final = 100
DEFAULT_RECORDS: Final = 20

StageName = Literal["read", "fetched", "transform", "java", "converted", "written"]
Outcome = Literal["dead letter", "skipped", "failed task"]


@dataclass(frozen=True)
class Header:
    """A header of a record; the value is the text of its bytes."""

    key: str
    value: str | None


@dataclass(frozen=True)
class Side:
    """A key or a value as the registry would get it."""

    subject: str
    """Empty for a schema that the config names by its id."""
    schema: str
    id: int | None
    """The id in the registry; None if the schema is not registered there."""
    takes: bool
    """True if the registry has the schema or would take it."""
    why: str = ""
    """The registry's reason to refuse the schema."""


@dataclass(frozen=True)
class Stage:
    """One record after one stage."""

    stage: StageName
    name: str = ""
    """A transform's alias and class, such as `mask (org.apache.kafka.connect.transforms.MaskField$Value)`."""
    applied: bool | None = None
    """For a transform: False if its predicate passed the record by."""
    topic: str | None = None
    partition: int | None = None
    """None in a source: the producer's partitioner decides."""
    timestamp: int | None = None
    key: Any = None
    value: Any = None
    """JSON; the text of the bytes (`0x…` if they are not UTF-8) where Kafka's bytes are shown."""
    headers: Sequence[Header] = ()
    key_schema: Any = None
    value_schema: Any = None
    """The Connect schema as JsonConverter writes it; None without one."""
    registered: Mapping[str, Side] = field(default_factory=dict)
    """`key` and `value`, where their converter writes with a registry's schema."""


@dataclass(frozen=True)
class Failure:
    """The error that ends a record's way."""

    stage: str
    """As dead letters name it, such as TRANSFORMATION or VALUE_CONVERTER."""
    class_name: str
    message: str
    outcome: Outcome
    """The record's fate by `errors.*`."""


@dataclass(frozen=True)
class EffectShown:
    """One thing that would be done outside (`plugins/extensions.py::Effect`)."""

    action: str
    target: str
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Difference:
    """A place where the changed config writes something else; a value that is absent is None."""

    path: str
    """Such as `value.price` or `topic`."""
    before: Any
    after: Any


@dataclass(frozen=True)
class PreviewedRecord:
    """One record on its way."""

    topic: str | None = None
    """Origin in Kafka, with partition and offset: of a sink's record."""
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    source_partition: Mapping[str, Any] | None = None
    """Origin outside, with its offset: of a source's record."""
    source_offset: Mapping[str, Any] | None = None
    stages: Sequence[Stage] = ()
    filtered: str | None = None
    """The transform that filtered the record out."""
    effects: Sequence[EffectShown] = ()
    error: Failure | None = None
    differences: Sequence[Difference] | None = None
    """None unless asked for."""


@dataclass(frozen=True)
class Preview:
    """The way of some records through a config."""

    kind: Kind
    records: Sequence[PreviewedRecord]
    effects: Sequence[EffectShown] = ()
    """Done for several records, such as a new table or a new topic."""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Wanted:
    """The records that a preview is to show."""

    records: int = DEFAULT_RECORDS
    begin: str = "stored"
    """`stored`, `earliest`, `latest`, an offset, or a time in ISO 8601."""
    sample: Sequence[Mapping[str, Any]] | None = None
    """A source's records in place of those that it would read, as `key`, `value`, `topic` and so on in plain JSON, or
    in JsonConverter's envelopes."""


class Previews(Protocol):
    """Makes previews for REST; any thread may call."""

    def preview(self, config: Config, wanted: Wanted, before: Config | None = None) -> Preview:
        """Preview this config, which has its `name`; `before`: compare with what this config does.

        Errors: BadRequest for a config that is refused, or records that cannot be had so; Conflict if too many previews
        run; TimedOut, naming the stage that took the time.
        """
