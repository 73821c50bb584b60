"""Refusals before a connector is created, in the words that users of Confluent's connectors know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.connectors.jdbc.database.connection import Database
from headrace.connectors.jdbc.sink import settings as sink_settings
from headrace.connectors.jdbc.sink.doctor import sink_findings
from headrace.connectors.jdbc.sink.validation import sink_problems
from headrace.connectors.jdbc.source import settings as source_settings
from headrace.connectors.jdbc.source.validation import source_problems, tables_to_offer


@pytest.fixture
def url(tmp_path: Path) -> str:
    text = f"jdbc:sqlite:{tmp_path / 'shop.db'}"
    database = Database.of({"connection.url": text}, {})
    with database.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TIMESTAMP NOT NULL)")
        connection.exec_driver_sql("CREATE VIEW seen AS SELECT * FROM orders")
    database.close()
    return text


def told(problems: Any) -> list[tuple[str, str]]:
    return [(problem.key, problem.message) for problem in problems]


BULK = {"mode": "bulk", "table.whitelist": "orders"}
TIMED = {"mode": "timestamp", "timestamp.column.name": "at"}


@pytest.mark.parametrize(
    "config",
    [
        BULK,
        TIMED,
        {"mode": "incrementing", "table.include.list": ".*"},
        {
            "mode": "timestamp+incrementing",
            "table.include.list": ".*",
            "timestamp.columns.mapping": ".*:[at]",
            "incrementing.column.mapping": ".*:id",
        },
        {"mode": "bulk", "query": "SELECT * FROM orders o JOIN orders p USING (id) WHERE id > 3"},
        {"mode": "bulk", "query": "-- a comment\n/* and\nanother */ select 1"},
        {"mode": "bulk", "query": "WITH o AS (SELECT 1 AS a) SELECT * FROM o"},
        {"mode": "incrementing", "incrementing.column.name": "id", "query.masked": "SELECT id FROM orders"},
        {"mode": "bulk", "table.whitelist": "a", "table.blacklist": "b"},
    ],
)
def test_what_is_right(url: str, config: dict[str, str]) -> None:
    assert source_problems({"connection.url": url, **config}, {}) == []


@pytest.mark.parametrize(
    ("config", "keys", "message"),
    [
        ({"table.whitelist": "orders"}, ["mode"], "Query mode must be specified"),
        (
            {"mode": "bulk"},
            ["table.whitelist", "table.include.list"],
            "At least one table filtering configuration is required",
        ),
        (
            {**BULK, "table.include.list": "a"},
            ["table.whitelist", "table.include.list"],
            "Cannot mix legacy and new configuration approaches",
        ),
        (
            {**TIMED, "table.include.list": "a"},
            ["timestamp.column.name", "table.include.list"],
            "Cannot mix legacy and new configuration approaches",
        ),
        (
            {**BULK, "query": "SELECT 1"},
            ["table.whitelist"],
            "Do not specify table filtering configs with 'query'",
        ),
        (
            {"mode": "bulk", "table.exclude.list": "a"},
            ["table.exclude.list"],
            "table.exclude.list cannot be used without table.include.list",
        ),
        (
            {"mode": "bulk", "query": "SELECT 1", "query.masked": "SELECT 1"},
            ["query", "query.masked"],
            "Both configs 'query' and 'query.masked' cannot be set at the same time",
        ),
        (
            {"mode": "bulk", "query.masked": "DELETE FROM orders"},
            ["query.masked"],
            "Only SELECT statements are supported for 'query.masked'",
        ),
        (
            {"mode": "incrementing", "query": "SELECT 1"},
            ["incrementing.column.name"],
            "A column must be provided when using mode 'incrementing' with a query",
        ),
        (
            {"mode": "timestamp", "table.whitelist": "orders"},
            ["timestamp.column.name"],
            "Timestamp column configuration must be provided when using mode 'timestamp'",
        ),
        (
            {"mode": "bulk", "table.include.list": ".*", "incrementing.column.mapping": ".*:id"},
            ["incrementing.column.mapping"],
            "incrementing.column.mapping cannot be used with mode 'bulk'",
        ),
        (
            {"mode": "incrementing", "table.include.list": ".*", "incrementing.column.mapping": "id"},
            ["incrementing.column.mapping"],
            "'id' is no entry regex:column",
        ),
        (
            {**BULK, "transaction.isolation.mode": "sql_server_snapshot"},
            ["transaction.isolation.mode"],
            "Isolation mode of SQL_SERVER_SNAPSHOT can only be configured with a SQL Server database",
        ),
        (
            {"mode": "bulk", "query": "SELECT missing FROM orders"},
            ["query"],
            "The configured query is not valid: no such column: missing",
        ),
    ],
)
def test_what_is_wrong(url: str, config: dict[str, str], keys: list[str], message: str) -> None:
    found = told(source_problems({"connection.url": url, **config}, {}))
    assert [key for key, _ in found] == keys
    assert all(text.startswith(message) for _, text in found), found


def test_a_query_that_is_hidden_is_in_no_message(url: str) -> None:
    config = {"connection.url": url, "mode": "bulk", "query.masked": "SELECT geheim FROM orders WHERE x = 'geheim2'"}
    (problem,) = source_problems(config, {})
    assert problem.value is None
    assert "SQLSTATE" in problem.message
    assert "geheim" not in str(problem)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "connection.url is empty, and nothing else says where the database is"),
        ("jdbc:h2:mem:x", "no dialect serves jdbc:h2:"),
        ("jdbc:oracle:thin:@host:1521/shop", "no dialect serves jdbc:oracle:"),
        ("jdbc:sqlite::memory:", "name the database's file by its path"),
        ("jdbc:sqlite:/nowhere/at/all.db", "Could not connect to database."),
    ],
)
def test_urls(url: str, message: str) -> None:
    for problems in (source_problems({**BULK, "connection.url": url}, {}), sink_problems({"connection.url": url}, {})):
        (problem,) = problems
        assert problem.key == "connection.url"
        assert message in problem.message


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, ""),
        ({"pk.mode": "record_value", "pk.fields": "ID", "fields.whitelist": "at,gone"}, ""),
        ({"pk.mode": "none", "pk.fields": "gone"}, ""),
        ({"pk.mode": "record_key", "fields.whitelist": "id"}, ""),
        ({"pk.mode": "record_value", "fields.whitelist": "id"}, ""),
        ({"pk.mode": "record_value", "pk.fields": "id", "fields.whitelist": "id", "insert.mode": "update"}, ""),
        ({"pk.mode": "record_value", "pk.fields": "id,gone"}, "has no column gone, which its key needs"),
        ({"pk.mode": "kafka"}, "no column __connect_topic, __connect_partition, __connect_offset"),
        ({"fields.whitelist": "id"}, "needs a value for at, which is not written"),
        ({"topics": "orders,no"}, "Table no of topic no is missing"),
    ],
)
def test_validate_only_checks_the_columns_that_the_config_names(url: str, config: dict[str, str], message: str) -> None:
    given = {"topics": "orders", "connection.url": url, "schema.evolution": "validate-only", **config}
    problems = sink_problems(given, {})
    assert [message in one.message for one in problems] == [True] * bool(message)


def test_to_validate_a_sink_makes_no_file(tmp_path: Path) -> None:
    config = {"topics": "t", "connection.url": f"jdbc:sqlite:{tmp_path / 'new.db'}"}
    assert sink_problems(config, {}) == []
    assert [(one.what, one.good) for one in sink_findings(config, {})] == [("database", True)]
    (problem,) = sink_problems({**config, "schema.evolution": "validate-only"}, {})
    assert (problem.key, "there is no such file" in problem.message) == ("schema.evolution", True)
    assert list(tmp_path.iterdir()) == []
    (problem,) = sink_problems({**config, "connection.url": f"jdbc:sqlite:{tmp_path / 'no' / 'new.db'}"}, {})
    assert problem.message.endswith("new.db: there is no such file, and none can be made there")


def test_a_source_makes_no_file(tmp_path: Path) -> None:
    config = {**BULK, "connection.url": f"jdbc:sqlite:{tmp_path / 'none.db'}"}
    (problem,) = source_problems(config, {})
    assert "there is no such file" in problem.message
    assert tables_to_offer(config, {}) == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://127.0.0.1:1/x?user=u&password=geheim&sslpassword=geheim",
        "jdbc:db2://h:50000/x:user=u;password=geheim;",
        "jdbc:oracle:thin:scott/geheim@h:1521:x",
        "jdbc:mysql://(host=h,user=u,password=geheim)/x",
    ],
)
def test_no_secret_of_a_url_is_told(url: str) -> None:
    for problems in (source_problems({**BULK, "connection.url": url}, {}), sink_problems({"connection.url": url}, {})):
        assert problems
        assert "geheim" not in "".join(f"{problem}{problem.value}" for problem in problems)


def test_the_worker_bounds_the_schemes(url: str) -> None:
    (problem,) = source_problems({**BULK, "connection.url": url}, {"jdbc.allowed.schemes": ["mysql"]})
    assert "jdbc.allowed.schemes" in problem.message


def test_parameters_blocked_by_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JDBC_CONNECTION_URL_BLOCKED_PARAMS", "Journal_Mode,cache_size")
    config = {**BULK, "connection.url": f"{url}?journal_mode=WAL", "connection.cache_size": "1"}
    assert told(source_problems(config, {})) == [
        ("connection.url", "JDBC URL contains blocked connection parameter 'journal_mode'"),
        ("connection.cache_size", "JDBC URL contains blocked connection parameter 'cache_size'"),
    ]


@pytest.mark.parametrize(
    ("config", "keys", "message"),
    [
        ({}, [], ""),
        ({"delete.enabled": "true", "pk.mode": "record_key"}, [], ""),
        ({"pk.mode": "record_key", "pk.fields": "record_value"}, [], ""),
        (
            {"pk.mode": "record_key", "pk.fields": "id", "string.output.value.column.name": "id"},
            ["string.output.value.column.name"],
            "Column id is one of pk.fields",
        ),
        (
            {"delete.enabled": "true", "pk.mode": "record_value"},
            ["pk.mode", "delete.enabled"],
            "Deletes are only supported for pk.mode record_key",
        ),
        ({"insert.mode": "upsert"}, ["pk.mode"], "insert.mode upsert requires a primary key"),
        ({"insert.mode": "UPDATE"}, ["pk.mode"], "insert.mode update requires a primary key"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, ["pk.fields"], "pk.mode kafka needs no pk.fields or three"),
        ({"table.name.format": "${source.schema}.${source.table}"}, [], ""),
        ({"table.name.format": "a.b.c.${topic}"}, ["table.name.format"], "'a.b.c.topic' names no table"),
        (
            {"topics.to.tables.mapping": "a:main.t,b:a.b.c.d"},
            ["topics.to.tables.mapping"],
            "'a.b.c.d' names no table",
        ),
        ({"topics.to.tables.mapping": "a:s.t"}, ["topics.to.tables.mapping"], "Table s.t is in another database"),
        (
            {"column.naming.strategy": "org.example.MyNames"},
            ["column.naming.strategy"],
            "A Java class cannot be run here",
        ),
    ],
)
def test_sinks(url: str, config: dict[str, str], keys: list[str], message: str) -> None:
    found = told(sink_problems({"connection.url": url, **config}, {}))
    assert [key for key, _ in found] == keys
    assert all(text.startswith(message) for _, text in found), found


def test_tables_are_offered(url: str) -> None:
    assert tables_to_offer({"connection.url": url, "mode": "bulk"}, {}) == ["orders"]
    assert tables_to_offer({"connection.url": url, "table.types": "VIEW", "table.whitelist": "x"}, {}) == ["seen"]
    assert tables_to_offer({"connection.url": "jdbc:nothing"}, {}) == []


def test_settings_of_other_vendors_mean_the_same() -> None:
    aiven = source_settings.parse({"timestamp.initial.ms": "5", "sql.quote.identifiers": "false", "mode": "bulk"})
    assert (aiven["timestamp.initial"], aiven["quote.sql.identifiers"]) == (5, "never")
    assert source_settings.parse({"numeric.precision.mapping": "true"})["numeric.mapping"] == "precision_only"
    debezium = {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "name": "d",
        "connection.username": "u",
        "primary.key.mode": "record_key",
        "primary.key.fields": "a,b",
        "collection.name.format": "x_${topic}",
        "use.time.zone": "Europe/Berlin",
        "schema.evolution": "basic",
        "field.exclude.list": "c",
        "flush.max.retries": "7",
    }
    options = sink_settings.options(debezium)
    assert (options.key_mode, options.key_fields, options.zone) == ("record_key", ("a", "b"), "Europe/Berlin")
    assert (options.table_format, options.excluded) == ("x_${topic}", frozenset({"c"}))
    assert options.creates
    assert options.evolves
    assert options.dots_to_underscores
    assert not options.quotes
    assert sink_settings.parse(debezium)["max.retries"] == 7
    assert sink_settings.parse({**debezium, "pk.mode": "kafka"})["pk.mode"] == "kafka"
    confluent = sink_settings.options({"topics.to.tables.mapping": "a:s.b, c:d", "errors.tolerance": "ALL"})
    assert confluent.tables == {"a": "s.b", "c": "d"}
    assert confluent.quotes
    assert confluent.tolerates
    assert (confluent.offsets_table, confluent.offsets_wanted) == ("connect_offsets", False)
    wanted = sink_settings.options({"offsets.table": "o"})
    assert (wanted.offsets_table, wanted.offsets_wanted) == ("o", True)
    assert sink_settings.options({"offsets.table": " "}).offsets_table is None
    assert sink_settings.options({"errors.retry.topic.name": "later"}).offsets_table is None
