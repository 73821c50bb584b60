"""Connectors' offsets: shown to operators, and changed by them while the connector is STOPPED (KIP-875).

Everything here but `stored` waits for Kafka or for a plugin, so deciding threads must not call it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, Protocol

from headrace.config.problems import ConfigError
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.java.jackson import java_json
from headrace.plugins.offsets import SourceOffset, SourcePartition, TopicPartition
from headrace.worker.errors import BadRequest, ConnectError, TimedOut
from headrace.worker.hosting.definition import ConnectorDefinition
from headrace.worker.kafka.consumer_groups import SinkGroup
from headrace.worker.model import Offset
from headrace.worker.storage.history import ConnectorHistory, moves_of
from headrace.worker.storage.offset_file import SourceOffsets

TOPIC: Final = "kafka_topic"
PARTITION: Final = "kafka_partition"
OFFSET: Final = "kafka_offset"

_INTEGER: Final = re.compile(r"[+-]?\d+")

Verb = Literal["altered", "reset"]


class ConsumerGroup(Protocol):
    """Consumer group of a sink connector; see `consumer_groups.SinkGroup`."""

    def offsets(self, failure: str = ...) -> Mapping[TopicPartition, int]:
        """Return each partition's committed offset."""

    def offsets_at(self, at_ms: int) -> Mapping[TopicPartition, int]:
        """Return the offset of the first record since an instant, for each partition with a committed offset."""

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set the group's offsets; None removes a partition's."""

    def delete(self) -> None:
        """Delete the group."""


class OffsetChanges:
    """Reads and changes the offsets of any connector."""

    def __init__(
        self,
        config: WorkerConfig,
        sources: SourceOffsets,
        sink_group: Callable[[WorkerConfig, Mapping[str, str]], ConsumerGroup] = SinkGroup,
    ) -> None:
        self._sources = sources
        self._make_group = partial(sink_group, config)

    def shown(self, connector: ConnectorDefinition) -> Sequence[Offset]:
        """Return the offset of each partition, without members hidden from operators."""
        if connector.kind == "sink":
            return _sink_offsets(self._sink_group(connector).offsets())
        self._refresh()
        return [(partition, visible(offset)) for partition, offset in self._sources.of(_name(connector))]

    def at(self, connector: ConnectorDefinition, at_ms: int) -> Sequence[Offset]:
        """Return the offset of the first record since an instant, for each partition that a sink has an offset of.

        Errors: BadRequest for a source; ConnectError.
        """
        if connector.kind != "sink":
            raise BadRequest(
                f"Connector {_name(connector)} is a source, and its offsets know no time; give the offsets themselves"
            )
        return [_sink_offset(at, to) for at, to in self._sink_group(connector).offsets_at(at_ms).items()]

    def stored(self, connector: str, partition: SourcePartition) -> SourceOffset | None:
        """Return the offset of a source's partition as this worker knows it; does not wait."""
        return self._sources.get(connector, partition)

    def alter(
        self, connector: ConnectorDefinition, offsets: Sequence[Offset], history: ConnectorHistory | None = None
    ) -> str:
        """Set offsets of a STOPPED connector, None resets a partition; returns the message for the requester.

        `history` records it. Errors: BadRequest for wrong offsets; ConnectError.
        """
        if connector.kind == "sink":
            return self._alter_sink(connector, offsets, history)
        wanted = [_source_offset(partition, offset) for partition, offset in offsets]
        complete = checked(connector, wanted)
        self._refresh()
        self._store(connector, wanted, history)
        return _message("altered", complete)

    def reset(self, connector: ConnectorDefinition, history: ConnectorHistory | None = None) -> str:
        """Reset all offsets of a STOPPED connector; returns the message for the requester.

        `history` records it. Errors: ConnectError.
        """
        if connector.kind == "sink":
            return self._reset_sink(connector, history)
        self._refresh()
        known: list[Offset] = [(partition, None) for partition in self._sources.partitions(_name(connector))]
        complete = checked(connector, known, reset=True)
        self._store(connector, known, history)
        return _message("reset", complete)

    def _sink_group(self, connector: ConnectorDefinition) -> ConsumerGroup:
        """Return the sink's consumer group. Errors: BadRequest if the connector may not use the group that it names."""
        try:
            return self._make_group(connector.plain)
        except ConfigError as error:
            raise BadRequest(connector.redaction().hide(str(error))) from error

    def _alter_sink(
        self, connector: ConnectorDefinition, offsets: Sequence[Offset], history: ConnectorHistory | None
    ) -> str:
        wanted = dict(_parsed(partition, offset) for partition, offset in offsets)
        complete = checked(connector, _sink_offsets(wanted))
        group = self._sink_group(connector)
        before = {} if history is None else group.offsets()
        group.alter(wanted)
        _record(history, connector, [_sink_offset(at, before.get(at)) for at in wanted], _sink_offsets(wanted))
        return _message("altered", complete)

    def _reset_sink(self, connector: ConnectorDefinition, history: ConnectorHistory | None) -> str:
        group = self._sink_group(connector)
        known = group.offsets("Failed to list offsets prior to resetting offsets for sink connector")
        complete = checked(connector, [_sink_offset(at, None) for at in known], reset=True)
        group.delete()
        _record(history, connector, _sink_offsets(known), [])
        return _message("reset", complete)

    def _store(
        self, connector: ConnectorDefinition, wanted: Sequence[Offset], history: ConnectorHistory | None
    ) -> None:
        name = _name(connector)
        before = [(partition, self._sources.get(name, partition)) for partition, _ in wanted]
        for partition, offset in wanted:
            self._sources.set(name, partition, offset)
        try:
            self._sources.flush()
        except OSError as error:
            raise ConnectError(f"The offsets of connector {name} could not be stored: {error}. Ask again") from error
        if self._sources.release(name, [partition for partition, _ in wanted]):
            raise ConnectError(
                f"The offsets of connector {name} could not be stored in time, some of them may be; the worker's log "
                "says why. Ask again"
            )
        _record(history, connector, before, wanted)

    def _refresh(self) -> None:
        try:
            self._sources.refresh()
        except RetriableError as error:
            raise TimedOut(f"{error}. Ask again") from error


def _record(
    history: ConnectorHistory | None,
    connector: ConnectorDefinition,
    before: Sequence[Offset],
    after: Sequence[Offset],
) -> None:
    """Have the history record the offsets that differ."""
    if history is not None and (moves := moves_of(_shown(before), _shown(after))):
        history.moved(_name(connector), moves)


def _shown(offsets: Sequence[Offset]) -> list[Offset]:
    return [(partition, visible(offset)) for partition, offset in offsets if offset is not None]


def checked(connector: ConnectorDefinition, offsets: Sequence[Offset], reset: bool = False) -> bool:
    """Have the connector check these offsets; returns True if nothing outside Kafka Connect has to be changed, too.

    `reset`: they are all offsets of the connector. Errors: BadRequest if the connector refuses them; ConnectError if it
    allows no change or its check fails with a retriable error.
    """
    body: dict[str, Any] = {"offsets": [{"partition": partition, "offset": offset} for partition, offset in offsets]}
    if reset:
        body["reset"] = True
    try:
        answer = connector.plugin().check_offsets(connector.plain, body)
    except NotImplementedError as error:
        raise ConnectError(
            f"Failed to modify offsets for connector {_name(connector)} because it doesn't support external "
            "modification of offsets"
        ) from error
    except ConnectError:
        raise
    except Exception as error:
        kind = ConnectError if isinstance(error, RetriableError) else BadRequest
        raise kind(connector.redaction().hide(str(error) or type(error).__name__)) from error
    if answer is False:
        raise BadRequest(
            f"Connector {_name(connector)} refuses these offsets and does not say why: check them against what "
            f"GET /connectors/{_name(connector)}/offsets shows"
        )
    return answer is True


def visible(offset: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source offset without hidden members."""
    return {name: value for name, value in offset.items() if not name.startswith("_") and value is not None}


def _source_offset(partition: Any, offset: Any) -> Offset:
    """Check a source offset; drops hidden members, the connector's own, which are wrong for another offset."""
    if partition is None:
        raise BadRequest("Partition objects cannot be null")
    for given in (partition, offset):
        _check_members(given)
    if offset is None:
        return partition, None
    return partition, {name: value for name, value in offset.items() if not name.startswith("_")}


def _check_members(given: Any) -> None:
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise BadRequest("Offsets must be specified as a Map")
    for name, value in given.items():
        if isinstance(value, Mapping | list):
            kind = "MAP" if isinstance(value, Mapping) else "ARRAY"
            raise BadRequest(f"Offsets may only contain primitive types as values, but field {name} contains {kind}")


def _sink_offset(at: TopicPartition, to: int | None) -> Offset:
    return {TOPIC: at.topic, PARTITION: at.partition}, None if to is None else {OFFSET: to}


def _sink_offsets(offsets: Mapping[TopicPartition, int | None]) -> list[Offset]:
    return [_sink_offset(at, to) for at, to in offsets.items()]


def _parsed(partition: Any, offset: Any) -> tuple[TopicPartition, int | None]:
    """Parse a sink's partition and offset; numbers may be text."""
    if partition is None:
        raise BadRequest("The partition for a sink connector offset cannot be null or missing")
    if TOPIC not in partition or PARTITION not in partition:
        raise BadRequest(f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'")
    if partition[TOPIC] is None:
        raise BadRequest("Kafka topic names must be valid strings and may not be null")
    if partition[PARTITION] is None:
        raise BadRequest("Kafka partitions must be valid numbers and may not be null")
    at = TopicPartition(_text(partition[TOPIC]), _number(partition[PARTITION], "partition", "Partition", 31))
    if offset is None:
        return at, None
    if OFFSET not in offset:
        raise BadRequest(f"The offset for a sink connector should either be null or contain the key '{OFFSET}'")
    return at, _number(offset[OFFSET], "offset", "Offset", 63)


def _number(value: Any, what: str, title: str, bits: int) -> int:
    text = _text(value)
    number = int(text) if _INTEGER.fullmatch(text) else None
    if number is None or not -(1 << bits) <= number < 1 << bits:
        raise BadRequest(
            f"Failed to parse the following Kafka {what} value in the provided offsets: '{text}'. {title} values for "
            "sink connectors need to be integers."
        )
    if number < 0:
        raise BadRequest(f"Kafka {what}s may not be negative, but one of the provided offsets has {number}")
    return number


def _text(value: Any) -> str:
    """Print a value as Java's `String.valueOf`."""
    return value if isinstance(value, str) else java_json(value)


def _message(verb: Verb, complete: bool) -> str:
    if complete:
        return f"The offsets for this connector have been {verb} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {verb} successfully. However, if this "
        f"connector manages offsets externally, they will need to be manually {verb} in the system that the connector "
        "uses."
    )


def _name(connector: ConnectorDefinition) -> str:
    return connector.raw["name"]
