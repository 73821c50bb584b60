"""Removed settings and classes of former versions: refused if they kept data back, else warned of."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from headrace.config import removed
from headrace.config.connector.removed_settings import check_removed, removed_settings
from headrace.config.connector.validation import Validation
from headrace.config.connector.validator import ConnectorValidator
from headrace.config.problems import ConfigError
from headrace.config.settings import Setting, Settings, Type
from headrace.plugins.interop.discovery import Plugins, UnknownPluginError

PLUGINS = Plugins.shipped()
SINK = {"name": "c", "connector.class": "FileStreamSink", "topics": "t", "file": "f"}
REPLACE = "org.apache.kafka.connect.transforms.ReplaceField"
UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
MIRROR = "org.apache.kafka.connect.mirror.Mirror{}Connector"
CLUSTERS = {
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "source.cluster.bootstrap.servers": "localhost:1",
    "target.cluster.bootstrap.servers": "localhost:1",
}


def validated(config: Mapping[str, str]) -> Validation:
    return ConnectorValidator(PLUGINS, None)(config)


def errors(config: Mapping[str, str]) -> dict[str, list[str]]:
    rows = (one["value"] for one in validated(config).infos()["configs"])
    return {row["name"]: row["errors"] for row in rows if row["errors"]}


@pytest.mark.parametrize("side", ["Key", "Value"])
@pytest.mark.parametrize(("old", "new"), [("blacklist", "exclude"), ("whitelist", "include")])
@pytest.mark.parametrize("also", [{}, {"transforms.r.exclude": "other"}])
def test_what_replace_field_no_longer_leaves_out_is_refused(
    side: str, old: str, new: str, also: Mapping[str, str]
) -> None:
    config = {**SINK, "transforms": "r", "transforms.r.type": f"{REPLACE}${side}", f"transforms.r.{old}": "cc_num"}
    ((key, (message,)),) = errors(config | also).items()
    assert key == f"transforms.r.{old}"
    assert message == (
        f"The setting transforms.r.{old} has no effect, and what it kept back would pass: it was removed in version "
        f"4.0: set transforms.r.{new}."
    )
    named = PLUGINS.find("connector", "FileStreamSink")
    with pytest.raises(ConfigError, match=rf"transforms\.r\.{old} .*set transforms\.r\.{new}"):
        check_removed("c-0", config, named, PLUGINS)


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("Source", "topics.blacklist", "topics.exclude"),
        ("Source", "topics.whitelist", "topics"),
        ("Source", "config.properties.blacklist", "config.properties.exclude"),
        ("Checkpoint", "groups.blacklist", "groups.exclude"),
        ("Checkpoint", "groups.whitelist", "groups"),
    ],
)
def test_what_mirror_maker_no_longer_leaves_out_is_refused(kind: str, old: str, new: str) -> None:
    config = {"name": "m", "connector.class": MIRROR.format(kind), **CLUSTERS, old: "secret.*"}
    assert f"set {new}." in errors(config)[old][0]


def test_others_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    config = {**SINK, "transforms": "u", "transforms.u.type": UNWRAP, "transforms.u.drop.tombstones": "true"}
    config |= {"transforms.u.operation.header": "true"}
    advice = {
        "transforms.u.drop.tombstones": "it was removed in version 3.2: "
        "set transforms.u.delete.tombstone.handling.mode",
        "transforms.u.operation.header": "it was removed in version 1.3: set transforms.u.add.headers=op",
    }
    assert dict(validated(config).unread) == advice
    with caplog.at_level(logging.WARNING):
        check_removed("c-0", config, PLUGINS.find("connector", "FileStreamSink"), PLUGINS)
    assert caplog.messages == [f"c-0: the setting {key} has no effect: {text}" for key, text in advice.items()]


@dataclass(frozen=True)
class Debezium:
    """A connector from a jar, of some version, whose class declares these settings."""

    version: str | None = "3.5.0.Final"
    declared: tuple[str, ...] = ("table.include.list",)
    class_name: str = "io.debezium.connector.postgresql.PostgresConnector"
    kind: str = "source"
    from_jar: bool = True
    has_java_class: bool = True

    @property
    def versions(self) -> Sequence[Debezium]:
        return (self,)

    def load(self) -> type[Any]:
        settings = Settings(*(Setting(name, Type.STRING, None) for name in self.declared))
        return type("Made", (), {"settings": settings})


@pytest.mark.parametrize(
    ("old", "new", "protects"),
    [
        *((f"{what}.whitelist", f"{what}.include.list", True) for what in ("database", "schema", "table", "column")),
        *((f"{what}.blacklist", f"{what}.exclude.list", True) for what in ("table", "column", "collection", "field")),
        ("database.server.name", "topic.prefix", False),
        ("database.history.kafka.topic", "schema.history.internal.kafka.topic", False),
        ("source.struct.version", "", False),
    ],
)
def test_debeziums_former_names(old: str, new: str, protects: bool) -> None:
    config = {"connector.class": "x", old: "a"}
    instead = f"set {new}" if new else "nothing takes its place"
    assert removed_settings(config, Debezium(), PLUGINS) == {
        old: (f"it was removed in version 2.0: {instead}", protects)
    }
    for former in (Debezium("1.9.7.Final"), Debezium(declared=(old,))):
        assert removed_settings(config, former, PLUGINS) == {}, "it has the setting"
    other = Debezium(class_name="io.debezium.connector.jdbc.JdbcSinkConnector", kind="sink")
    assert removed_settings(config, other, PLUGINS) == {}


def test_confluents_sources_still_have_their_lists() -> None:
    config = {"name": "j", "connector.class": "JdbcSource", "table.whitelist": "a", "table.blacklist": "b"}
    assert removed_settings(config, PLUGINS.find("connector", "JdbcSource"), PLUGINS) == {}


@pytest.mark.parametrize(
    "name", ["FileStreamSink", REPLACE + "$Value", UNWRAP, MIRROR.format("Source"), MIRROR.format("Checkpoint")]
)
def test_no_plugin_of_ours_declares_what_is_removed_and_each_successor_is_known(name: str) -> None:
    plugin = PLUGINS.named(name)
    known = plugin.load().settings
    for owner, table in removed._SETTINGS:
        if plugin.class_name.startswith(owner):
            assert not [old for old in table if old in known]
    if "Mirror" not in name:
        return
    both = [PLUGINS.named(MIRROR.format(kind)).load().settings for kind in ("Source", "Checkpoint")]
    assert not [
        one.successor
        for one in removed._MIRROR.values()
        if one.successor and not any(one.successor in of for of in both)
    ]


def test_a_class_that_was_renamed_is_answered_with_its_name() -> None:
    for old, new in removed.CLASSES.items():
        with pytest.raises(UnknownPluginError, match=rf"Did you mean {new}\?"):
            PLUGINS.find("converter", old)
    told = errors({**SINK, "transforms": "u", "transforms.u.type": "io.debezium.transforms.UnwrapFromEnvelope"})
    assert f"Did you mean {UNWRAP}?" in told["transforms.u.type"][0]
