"""The settings as REST shows them: Confluent's names, types and defaults, and what validation says of their values.

The tables are written off the behaviour of Confluent's connector, not off the code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.config.connector.validation import plugin_config
from headrace.config.connector.validator import ConnectorValidator
from headrace.config.properties import read_connector
from headrace.config.worker.config import WorkerConfig
from headrace.connectors.jdbc.database.connection import Database
from headrace.plugins.interop.discovery import Plugins
from headrace.worker.herder.plugins import InstalledPlugins
from headrace.worker.hosting import definition

CONNECTION = {
    "connection.url": ("STRING", ""),
    "connection.user": ("STRING", None),
    "connection.password": ("PASSWORD", None),
    "connection.attempts": ("INT", "3"),
    "connection.backoff.ms": ("LONG", "10000"),
    "dialect.name": ("STRING", ""),
    "quote.sql.identifiers": ("STRING", "ALWAYS"),
    "db.timezone": ("STRING", "UTC"),
    "date.calendar.system": ("STRING", "LEGACY"),
}
SOURCE = {
    **CONNECTION,
    "catalog.pattern": ("STRING", None),
    "schema.pattern": ("STRING", None),
    "table.whitelist": ("LIST", ""),
    "table.blacklist": ("LIST", ""),
    "table.include.list": ("LIST", ""),
    "table.exclude.list": ("LIST", ""),
    "table.types": ("LIST", "TABLE"),
    "mode": ("STRING", ""),
    "incrementing.column.name": ("STRING", ""),
    "timestamp.column.name": ("LIST", ""),
    "timestamp.columns.mapping": ("LIST", ""),
    "incrementing.column.mapping": ("LIST", ""),
    "timestamp.initial": ("LONG", None),
    "validate.non.null": ("BOOLEAN", "true"),
    "query": ("STRING", ""),
    "query.masked": ("PASSWORD", "[hidden]"),
    "query.suffix": ("STRING", ""),
    "query.retry.attempts": ("INT", "-1"),
    "numeric.precision.mapping": ("BOOLEAN", "false"),
    "numeric.mapping": ("STRING", None),
    "timestamp.granularity": ("STRING", "connect_logical"),
    "timestamp.delay.interval.ms": ("LONG", "0"),
    "transaction.isolation.mode": ("STRING", "DEFAULT"),
    "poll.interval.ms": ("INT", "5000"),
    "batch.max.rows": ("INT", "1000"),
    "max.buffer.size": ("INT", "0"),
    "poll.linger.ms": ("LONG", "5000"),
    "table.poll.interval.ms": ("LONG", "60000"),
    "table.monitoring.startup.polling.limit.ms": ("LONG", "10000"),
    "topic.prefix": ("STRING", ""),
}
SINK = {
    **CONNECTION,
    "insert.mode": ("STRING", "insert"),
    "batch.size": ("INT", "3000"),
    "delete.enabled": ("BOOLEAN", "false"),
    "table.types": ("LIST", "TABLE"),
    "table.name.format": ("STRING", "${topic}"),
    "pk.mode": ("STRING", "none"),
    "pk.fields": ("LIST", ""),
    "fields.whitelist": ("LIST", ""),
    "replace.null.with.default": ("BOOLEAN", "true"),
    "date.timezone": ("STRING", "DB_TIMEZONE"),
    "timestamp.fields.list": ("LIST", ""),
    "timestamp.precision.mode": ("STRING", "microseconds"),
    "string.output.value.column.name": ("STRING", "record_value"),
    "auto.create": ("BOOLEAN", "false"),
    "auto.evolve": ("BOOLEAN", "false"),
    "mssql.use.merge.holdlock": ("BOOLEAN", "true"),
    "max.retries": ("INT", "10"),
    "retry.backoff.ms": ("INT", "3000"),
    "trim.sensitive.log": ("BOOLEAN", "false"),
    "offsets.table": ("STRING", "connect_offsets"),
}
OURS = {
    "source": {
        "incrementing.initial",
        "incrementing.overlap",
        "numeric.long.mapping",
        "timestamp.overlap.ms",
        "snapshot.bound",
    }
    | {"parallel.ranges"},
    "sink": {"auto.evolve.widen", "truncate.enabled", "topics.to.tables.mapping"} | {"table.name.normalize"},
}
PROVIDER = "jdbc.credentials.provider.class"
CLASSES = {
    "io.confluent.connect.jdbc.JdbcSourceConnector": SOURCE,
    "io.aiven.connect.jdbc.JdbcSourceConnector": SOURCE,
    "io.confluent.connect.jdbc.JdbcSinkConnector": SINK,
    "io.aiven.connect.jdbc.JdbcSinkConnector": SINK,
    "io.debezium.connector.jdbc.JdbcSinkConnector": SINK,
}
PLUGINS = Plugins.discover()


@pytest.mark.parametrize("name", CLASSES)
def test_settings_are_confluents(name: str) -> None:
    plugin = PLUGINS.find("connector", name)
    framework = {"name", "connector.class", "tasks.max"}
    shown = {row["name"]: row for row in plugin_config(plugin)}
    assert framework <= shown.keys()
    own = [setting.name for setting in plugin.load().settings]
    rows = {key: (shown[key]["type"], shown[key]["default_value"]) for key in own}
    assert {key: rows[key] for key in CLASSES[name]} == CLASSES[name]
    rest = {key for key in rows.keys() - CLASSES[name].keys() if shown[key]["group"] != "Other names"}
    assert rest == OURS[plugin.kind] | {PROVIDER}
    assert [key for key in own if not shown[key]["documentation"]] == []
    groups = [shown[key]["group"] for key in own]
    assert groups == sorted(groups, key=groups.index), "the settings of a group stand together"
    for key in own:
        for dependent in shown[key]["dependents"]:
            assert dependent in own


def test_short_names_mean_the_connectors() -> None:
    assert PLUGINS.find("connector", "JdbcSource").kind == "source"
    assert PLUGINS.find("connector", "JdbcSourceConnector").kind == "source"
    assert PLUGINS.find("connector", "JdbcSink").kind == "sink"


@pytest.fixture
def url(tmp_path: Path) -> str:
    text = f"jdbc:sqlite:{tmp_path / 'shop.db'}"
    database = Database.of({"connection.url": text}, {})
    with database.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    database.close()
    return text


def validated(config: dict[str, str]) -> tuple[int, dict[str, dict[str, Any]]]:
    infos = ConnectorValidator(PLUGINS, None)({"name": "c", **config}).infos()
    return infos["error_count"], {one["value"]["name"]: one["value"] for one in infos["configs"]}


def test_validation_of_a_source(url: str) -> None:
    config = {"connector.class": "JdbcSource", "connection.url": url, "mode": "incrementing", "table.whitelist": "x"}
    count, values = validated(config)
    assert count == 0
    assert values["table.whitelist"]["recommended_values"] == ["orders"]
    assert values["mode"]["recommended_values"] == ["bulk", "incrementing", "timestamp", "timestamp+incrementing"]
    assert values["incrementing.column.name"]["visible"]
    assert not values["timestamp.column.name"]["visible"]
    assert not values["timestamp.delay.interval.ms"]["errors"]
    count, values = validated({**config, "mode": "", "connection.password": "geheim", "db.timezone": "Mars"})
    assert values["connection.password"]["value"] == "[hidden]"
    assert values["db.timezone"]["errors"] == [
        "Invalid value Mars for configuration db.timezone: Invalid time zone identifier"
    ]
    assert count == 1, "what hangs on others is told when single settings are right"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("mode", "bulky", "String must be one of: , bulk, incrementing, timestamp, timestamp+incrementing"),
        ("numeric.mapping", "best", "String must be one of (case insensitive): NONE, PRECISION_ONLY, BEST_FIT, "),
        ("topic.prefix", "a b", "Topic prefix must consist of"),
        ("topic.prefix", "a" * 250, "Topic prefix must not be longer than 249 characters"),
        ("timestamp.initial", "-2", "Value must be at least -1"),
        ("timestamp.initial", "1700000000000000", "Value must be no more than 253370764800000"),
        ("table.include.list", "a(", "Invalid regex 'a('"),
        ("connection.attempts", "0", "Value must be at least 1"),
        (PROVIDER, "org.example.Mine", "a Java class cannot be run here"),
        ("quote.sql.identifiers", "sometimes", "String must be one of (case insensitive): ALWAYS, NEVER"),
    ],
)
def test_values_of_a_source_that_are_wrong(url: str, key: str, value: str, message: str) -> None:
    config = {"connector.class": "JdbcSource", "connection.url": url, "mode": "bulk", "table.whitelist": "x"}
    count, values = validated({**config, key: value})
    assert count == 1
    assert message in values[key]["errors"][0]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("insert.mode", "merge", "String must be one of (case insensitive): INSERT, UPSERT, UPDATE, MULTI"),
        ("pk.mode", "record_header", "String must be one of (case insensitive): NONE, KAFKA, RECORD_KEY, RECORD_VALUE"),
        ("table.name.format", "", "String must be non-empty"),
        ("batch.size", "-1", "Value must be at least 0"),
        ("topics.to.tables.mapping", "a", "'a' is no entry topic:table"),
        ("field.include.list", "orders:id", "'orders:id': fields of single topics cannot be chosen"),
        ("use.time.zone", "Mars", "Invalid time zone identifier"),
    ],
)
def test_values_of_a_sink_that_are_wrong(url: str, key: str, value: str, message: str) -> None:
    config = {"connector.class": "JdbcSink", "connection.url": url, "topics": "t"}
    count, values = validated({**config, key: value})
    assert count == 1
    assert message in values[key]["errors"][0]


def test_validation_of_a_sink(url: str) -> None:
    config = {"connector.class": "JdbcSink", "connection.url": url, "topics": "t"}
    count, values = validated(config)
    assert count == 0
    assert not values["pk.fields"]["visible"]
    count, values = validated({**config, "delete.enabled": "true"})
    assert count == 2
    assert values["pk.mode"]["errors"] == ["Deletes are only supported for pk.mode record_key"]
    assert values["delete.enabled"]["errors"] == ["Deletes are only supported for pk.mode record_key"]


def test_the_workers_bounds_reach_validation_and_the_connector(url: str, tmp_path: Path) -> None:
    properties = {
        "bootstrap.servers": "localhost:9092",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "jdbc.allowed.schemes": "postgresql",
    }
    worker = WorkerConfig.standalone(properties)
    installed = InstalledPlugins(PLUGINS, worker)
    config = {"name": "c", "connector.class": "JdbcSource", "connection.url": url, "mode": "bulk"}
    found = installed.validate({**config, "table.whitelist": "orders"})
    assert [problem.key for problem in found.problems] == ["connection.url"]
    assert "jdbc.allowed.schemes" in found.problems[0].message
    allowed = InstalledPlugins(PLUGINS, WorkerConfig.standalone({**properties, "jdbc.allowed.schemes": "sqlite"}))
    made = definition.validated(allowed, {**config, "table.whitelist": "orders"}).instance()
    assert made.worker["jdbc.allowed.schemes"] == ["sqlite"]


@pytest.mark.parametrize("name", ["connect-jdbc-source.properties", "connect-jdbc-sink.properties"])
def test_the_shipped_files_set_what_there_is(name: str) -> None:
    config = read_connector(Path(__file__).parents[4] / "config" / name).config
    plugin = PLUGINS.find("connector", config["connector.class"])
    known = {row["name"] for row in plugin_config(plugin)}
    assert config.keys() <= known
    assert plugin.load().settings.problems(config) == []
