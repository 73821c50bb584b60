"""One record, as authors of connectors see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

Headers = Mapping[str, str | bytes | None] | Sequence[tuple[str, str | bytes | None]]


@dataclass(slots=True)
class Record:
    """A record on its way into Kafka (from a source) or out of it (to a sink)."""

    value: Any = None
    """A dict, list, number or text; a dataclass or pydantic model; bytes; None: a tombstone."""
    key: Any = None
    """As `value`; None: no key."""
    headers: Headers = ()
    """Name and value of each; a sink is given bytes."""
    timestamp: int | datetime | None = None
    """In ms since the epoch, which a sink is given; None: the time at which it is sent."""
    topic: str | None = None
    """None: the topic of the connector's setting `topic`."""
    partition: int | None = None
    """None: chosen by the key, as Kafka's producer does."""
    offset: Any = None
    """Of a source: a dict of JSON values, from which `poll` goes on after this record; None: this record has none, and
    comes again after a restart unless a later one with an offset was sent. To a sink: the offset in Kafka, an int."""
