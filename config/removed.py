"""Settings and classes that Kafka, Confluent and Debezium removed or renamed, with their successors.

A plugin ignores a setting that it does not know. If the setting kept data back, such as `blacklist` of ReplaceField,
the data would pass: such a setting is refused, with its new name. For others there is a warning, with their new names.

Source: Kafka's KIP-629 and the upgrade notes of Kafka 3.0 and 4.0; the release notes of Debezium.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Removed(NamedTuple):
    """A setting that was removed or renamed."""

    since: str
    """The first version of the plugin without the setting."""
    successor: str
    """The setting to use instead, with a value if that is fixed; empty: none."""
    protects: bool = False
    """True if the setting kept data back."""

    def advice(self, prefix: str = "") -> str:
        """Advice as a part of a sentence; `prefix` stands before the names of the plugin's settings."""
        instead = f"set {prefix}{self.successor}" if self.successor else "nothing takes its place"
        return f"it was removed in version {self.since}: {instead}"


def _lists(since: str, names: Mapping[str, str]) -> dict[str, Removed]:
    """Renamed settings that list what to keep or leave out; `names` maps old to new names."""
    return {old: Removed(since, new, protects=True) for old, new in names.items()}


def _renamed(since: str, names: Mapping[str, str]) -> dict[str, Removed]:
    return {old: Removed(since, new) for old, new in names.items()}


_MIRROR: Final = _lists(
    "4.0",
    {
        "topics.whitelist": "topics",
        "topics.blacklist": "topics.exclude",
        "groups.whitelist": "groups",
        "groups.blacklist": "groups.exclude",
        "config.properties.blacklist": "config.properties.exclude",
    },
) | _renamed("4.0", {"use.incremental.alter.configs": ""})

_DEBEZIUM_LISTS: Final = {
    f"{what}.{old}": f"{what}.{new}.list"
    for what in ("database", "schema", "table", "column", "collection")
    for old, new in (("whitelist", "include"), ("blacklist", "exclude"))
}

_DEBEZIUM: Final = (
    _lists("2.0", {**_DEBEZIUM_LISTS, "field.blacklist": "field.exclude.list"})
    | _renamed(
        "2.0",
        {
            "database.server.name": "topic.prefix",
            "mongodb.name": "topic.prefix",
            "database.history": "schema.history.internal",
            "database.history.": "schema.history.internal.",
            "event.deserialization.failure.handling.mode": "event.processing.failure.handling.mode",
            "heartbeat.topics.prefix": "topic.heartbeat.prefix",
            "transaction.topic": "topic.transaction",
            "toasted.value.placeholder": "unavailable.value.placeholder",
            "truncate.handling.mode": "skipped.operations",
            "slot.drop_on_stop": "slot.drop.on.stop",
            "source.struct.version": "",
        },
    )
    | _renamed("2.2", {"sanitize.field.names": "field.name.adjustment.mode=avro"})
    | _renamed("2.4", {"mongodb.hosts": "mongodb.connection.string"})
)

_SETTINGS: Final[tuple[tuple[str, Mapping[str, Removed]], ...]] = (
    (
        "org.apache.kafka.connect.transforms.ReplaceField$",
        _lists("4.0", {"blacklist": "exclude", "whitelist": "include"}),
    ),
    ("org.apache.kafka.connect.mirror.", _MIRROR),
    ("io.debezium.connector.jdbc.", {}),
    ("io.debezium.connector.sqlserver.", {**_DEBEZIUM, "database.dbname": Removed("2.0", "database.names")}),
    ("io.debezium.connector.", _DEBEZIUM),
    (
        "io.debezium.transforms.ExtractNewRecordState",
        _renamed("1.3", {"operation.header": "add.headers=op", "add.source.fields": "add.fields"})
        | _renamed("3.2", dict.fromkeys(("delete.handling.mode", "drop.tombstones"), "delete.tombstone.handling.mode")),
    ),
)
"""Plugins' settings, by beginnings of class names; the first match counts. A name with a dot at its end is a prefix."""

WORKER: Final[Mapping[str, Removed]] = {
    "rest.host.name": Removed("3.0", "listeners", protects=True),
    "rest.port": Removed("3.0", "listeners"),
    **{
        f"internal.{side}.converter{more}": Removed("3.0", "")
        for side in ("key", "value")
        for more in ("", ".schemas.enable")
    },
}
"""A worker's properties; `rest.host.name` kept the REST API to one address."""

CLASSES: Final[Mapping[str, str]] = {
    "io.debezium.transforms.UnwrapFromEnvelope": "io.debezium.transforms.ExtractNewRecordState",
    "io.debezium.connector.mongodb.transforms.UnwrapFromMongoDbEnvelope": (
        "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState"
    ),
    "io.debezium.converters.ByteBufferConverter": "io.debezium.converters.BinaryDataConverter",
    "io.tabular.iceberg.connect.IcebergSinkConnector": "org.apache.iceberg.connect.IcebergSinkConnector",
}
"""Today's full names of classes, by their former full names."""


def removed(class_name: str, setting: str) -> Removed | None:
    """The removal of a plugin's setting; None if none is known. The caller compares the plugin's version."""
    known = next((table for owner, table in _SETTINGS if class_name.startswith(owner)), {})
    if setting in known:
        return known[setting]
    for name, found in known.items():
        if name.endswith(".") and setting.startswith(name):
            return found._replace(successor=found.successor + setting.removeprefix(name))
    return None
