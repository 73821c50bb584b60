"""The choices of a sink's settings, in a form that travels to Python workers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

LARGEST_ID: Final = 512
"""The most bytes of a document's id."""


class Flavour(StrEnum):
    """The connectors whose settings and habits are served."""

    CONFLUENT = "Confluent's Elasticsearch sink"
    AIVEN_ELASTICSEARCH = "Aiven's Elasticsearch sink"
    AIVEN_OPENSEARCH = "Aiven's OpenSearch sink"


class Nulls(StrEnum):
    """The ways with a record without a value."""

    IGNORE = "ignore"
    DELETE = "delete"
    FAIL = "fail"


class Policy(StrEnum):
    """The ways with a document that was not written."""

    IGNORE = "ignore"
    WARN = "warn"
    REPORT = "report"
    """A failed record: a dead letter, or the end of the task, as `errors.tolerance` says."""
    FAIL = "fail"


class Ids(StrEnum):
    """The origins of a document's id."""

    KEY = "record.key"
    ORIGIN = "topic.partition.offset"
    SERVER = "none"
    """The server makes one."""


class Kind(StrEnum):
    """The kinds of what documents are written into."""

    INDEX = "index"
    ALIAS = "alias"
    STREAM = "data stream"


@dataclass(frozen=True)
class Stream:
    """Names of data streams."""

    format: str
    """The stream's name; `${topic}` in it is the topic."""
    template: str | None = None
    """The name of the index template that is made for each stream; None: none is made."""


@dataclass(frozen=True)
class SinkOptions:
    """The settings of one sink."""

    flavour: Flavour
    connector: str
    ids_without_key: Ids
    ids: Ids
    topics_without_key: frozenset[str] = frozenset()
    schema_ignored: bool = False
    topics_without_schema: frozenset[str] = frozenset()
    compacts_maps: bool = True
    upserts: bool = False
    nulls: Nulls = Nulls.IGNORE
    malformed: Policy = Policy.FAIL
    conflicts: Policy = Policy.WARN
    drops_invalid: bool = False
    version_header: str = ""
    stream: Stream | None = None
    timestamp_fields: tuple[str, ...] = ()
    """The first of these that a stream's document has becomes its `@timestamp`; none: the record's time does."""
    creates: bool = True
    """False: whatever is written into must be there."""
    kind: Kind = Kind.INDEX
    """The kind of what must be there, if nothing is created."""
    resources: Mapping[str, str] = field(default_factory=dict)
    """The names of what takes a topic's documents, as they are."""
    routing: str = "none"
    routing_path: tuple[str, ...] = ()
    batch_rows: int = 2000
    batch_bytes: int = 5 << 20
    in_flight: int = 5
    max_retries: int = 5
    backoff_s: float = 0.1
    tells: bool = False
    """True if refused records become dead letters."""
    shows_content: bool = False
    """True if errors may quote the server's reasons, which quote documents."""

    def ids_of(self, topic: str) -> Ids:
        """The origin of the ids of a topic's documents."""
        return self.ids_without_key if topic in self.topics_without_key else self.ids

    @property
    def is_stream(self) -> bool:
        """True if documents can only be added."""
        return self.stream is not None or (not self.creates and self.kind is Kind.STREAM)
