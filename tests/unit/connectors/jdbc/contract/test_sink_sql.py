"""The statements that each database is given."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.dialect import Dialect
from headrace.connectors.jdbc.contract.sink_options import InsertMode, KeyMode, SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import Cell, Operation, RowLayout
from headrace.connectors.jdbc.contract.sink_sql import DOCUMENT, Target
from headrace.connectors.jdbc.contract.tables import Table, TableId, TableType
from headrace.connectors.jdbc.dialects.mariadb.dialect import MariadbDialect
from headrace.connectors.jdbc.dialects.postgresql.dialect import PostgresqlDialect
from headrace.connectors.jdbc.dialects.sqlite.dialect import SqliteDialect
from headrace.plugins.schema import STRING, TIMESTAMP, Schema, SchemaType

INT32, BYTES = Schema(SchemaType.INT32), Schema(SchemaType.BYTES)
MOMENT = Schema(SchemaType.INT64, name=TIMESTAMP)
UPSERT = SinkOptions(insert_mode=InsertMode.UPSERT, key_mode=KeyMode.RECORD_VALUE, key_fields=("id",))
TABLE = Table(
    TableId(None, "s", "o'\"`t"),
    TableType.TABLE,
    (
        DatabaseColumn("id", "integer", Kind.INT32),
        DatabaseColumn('a"`%b', "text", Kind.STRING),
        DatabaseColumn("at", "timestamp without time zone", Kind.TIMESTAMP),
        DatabaseColumn("computed", "integer", Kind.INT32, generated=True),
    ),
    key=("id",),
)
CELLS = (Cell("id", INT32, True, "v0_0"), Cell('A"`%b', STRING, False, "v0_1"), Cell("computed", INT32, False, "v0_2"))
WRITE, DELETE = RowLayout(Operation.WRITE, CELLS), RowLayout(Operation.DELETE, CELLS[:1])


def target(dialect: Dialect, layout: RowLayout = WRITE, options: SinkOptions = UPSERT, table: Table = TABLE) -> Target:
    documents = dialect.sink_sql(options).form.documents
    return dialect.sink_sql(options).target(table, replace(layout, document="row") if documents else layout)


def test_postgresql_merges_from_a_stage_of_the_tables_types() -> None:
    found = target(PostgresqlDialect())
    assert found.arrow == ("v0_0", "v0_1")
    assert found.stage is not None
    name = '"s"."o\'""`t"'
    assert found.stage.endswith(f'ON COMMIT DELETE ROWS AS SELECT "id" AS c0, "a""`%b" AS c1 FROM {name} WITH NO DATA')
    assert found.copy is not None
    stage = found.copy.split()[1]
    assert found.copy == f"COPY {stage} (c0, c1) FROM STDIN (FORMAT csv)"
    rows = f"(SELECT c0 AS c0, c1 AS c1 FROM {stage}) AS s"
    assert found.steps == (
        f'INSERT INTO {name} ("id", "a""`%b") SELECT s.c0, s.c1 FROM {rows} '
        'ON CONFLICT ("id") DO UPDATE SET "a""`%b" = EXCLUDED."a""`%b"',
    )
    assert target(PostgresqlDialect(), DELETE).steps[0].endswith('AS s WHERE t."id" = s.c0')


def test_postgresql_copies_straight_into_the_table_where_no_key_is_looked_for() -> None:
    found = target(PostgresqlDialect(), options=SinkOptions())
    assert found == Target(("v0_0", "v0_1"), copy='COPY "s"."o\'""`t" ("id", "a""`%b") FROM STDIN (FORMAT csv)')


def test_postgresql_keeps_a_table_from_being_altered_where_it_is_read_anyway() -> None:
    name, document = '"s"."o\'""`t"', replace(WRITE, document="row")
    inserting = replace(UPSERT, insert_mode=InsertMode.INSERT)
    for layout in (WRITE, DELETE, document):
        check = target(PostgresqlDialect(), layout).check or ""
        assert f"AND (SELECT true FROM {name} LIMIT 0) IS NULL, " in check
    check = PostgresqlDialect().sink_sql(inserting).target(TABLE, document).check or ""
    assert check.endswith("IS DISTINCT FROM k.kind), false"), "who may only INSERT could not ask"


def test_postgresql_makes_instants_the_wall_clock_of_the_zone() -> None:
    layout = RowLayout(Operation.WRITE, (Cell("at", MOMENT, False, "v0_0"),))
    assert target(PostgresqlDialect(), layout, SinkOptions()).stage is None
    found = target(PostgresqlDialect(), layout, SinkOptions(zone="Europe/Berlin"))
    assert found.stage is not None
    assert "NULL::timestamptz AS c0" in found.stage
    assert "(c0 AT TIME ZONE 'Europe/Berlin') AS c0" in found.steps[0]


@pytest.mark.parametrize(
    ("zone", "clock"),
    [
        ("+02:00", "INTERVAL '7200 seconds'"),
        ("GMT-5", "INTERVAL '-18000 seconds'"),
        ("IST", "'Asia/Kolkata'"),
        ("CST", "'America/Chicago'"),
    ],
)
def test_postgresql_reads_no_zone_as_posix_would(zone: str, clock: str) -> None:
    layout = RowLayout(Operation.WRITE, (Cell("at", MOMENT, False, "v0_0"),))
    assert f"(c0 AT TIME ZONE {clock}) AS c0" in target(PostgresqlDialect(), layout, SinkOptions(zone=zone)).steps[0]


@pytest.mark.parametrize(
    ("kind", "type_name", "schema", "stage"),
    [
        (Kind.DATE, "date", INT32, "NULL::INT"),
        (Kind.TIME, "time", Schema(SchemaType.INT64), "NULL::BIGINT"),
        (Kind.TIMESTAMP, "timestamp", Schema(SchemaType.BOOLEAN), "NULL::BOOLEAN"),
        (Kind.STRING, "interval(3)", Schema(SchemaType.FLOAT64), "NULL::DOUBLE PRECISION"),
        (Kind.STRING, "interval", MOMENT, "NULL::TIMESTAMP"),
        (Kind.INT8, "bit(3)", INT32, "NULL::INT"),
        (Kind.BYTES, "bytea", INT32, "NULL::INT"),
        (Kind.TIMESTAMP, "timestamp", MOMENT, None),
        (Kind.STRING, "interval", STRING, None),
        (Kind.INT64, "bigint", INT32, None),
    ],
)
def test_postgresql_reads_no_number_as_the_text_of_something_else(
    kind: Kind, type_name: str, schema: Schema, stage: str | None
) -> None:
    table = replace(TABLE, columns=(DatabaseColumn("x", type_name, kind),))
    found = target(
        PostgresqlDialect(), RowLayout(Operation.WRITE, (Cell("x", schema, False, "v"),)), SinkOptions(), table
    )
    assert found.stage is None if stage is None else f"SELECT {stage} AS c0" in (found.stage or "")


@pytest.mark.parametrize("zone", ["UTC", "Z", "Etc/GMT", "+00:00"])
def test_a_zone_that_is_utc_needs_no_stage(zone: str) -> None:
    layout = RowLayout(Operation.WRITE, (Cell("at", MOMENT, False, "v0_0"),))
    assert target(PostgresqlDialect(), layout, SinkOptions(zone=zone)).stage is None


@pytest.mark.parametrize(
    ("mode", "step"),
    [
        (InsertMode.INSERT, ")"),
        (InsertMode.UPSERT, ' ON CONFLICT ("id") DO NOTHING'),
        (InsertMode.UPDATE, None),
    ],
)
def test_a_row_that_is_only_a_key(mode: InsertMode, step: str | None) -> None:
    layout, options = RowLayout(Operation.WRITE, CELLS[:1]), replace(UPSERT, insert_mode=mode)
    steps = target(PostgresqlDialect(), layout, options).steps
    assert steps == () if step is None or mode is InsertMode.INSERT else steps[0].endswith(step)
    maria = target(MariadbDialect(), layout, options).steps
    assert maria == () if step is None else not maria[0].endswith("VALUES()")


def test_mariadb_unnests_a_document_into_texts() -> None:
    (step,) = target(MariadbDialect()).steps
    items = "c0 LONGTEXT PATH '$[0]' NULL ON EMPTY ERROR ON ERROR, c1 LONGTEXT PATH '$[1]' NULL ON EMPTY ERROR ON ERROR"
    assert step == (
        f"INSERT INTO `s`.`o'\"``t` (`id`, `a\"``%b`) SELECT r.c0, CONCAT(r.c1, '') "
        f"FROM JSON_TABLE({DOCUMENT}, '$[*]' COLUMNS ({items})) AS r"
        ' ON DUPLICATE KEY UPDATE `a"``%b` = VALUES(`a"``%b`)'
    )
    drop, make, fill, change = target(MariadbDialect(), DELETE).steps
    assert drop == "DROP TEMPORARY TABLE IF EXISTS headrace_rows"
    assert make.startswith("CREATE TEMPORARY TABLE headrace_rows AS SELECT ")
    assert DOCUMENT in fill
    assert change.startswith("DELETE t FROM headrace_rows ")
    assert change.endswith("ON t.`id` = s.`id`"), "the server's errors name the stage's columns"


def test_sqlite_makes_each_item_what_its_schema_says() -> None:
    (step,) = target(SqliteDialect()).steps
    assert "SELECT CAST(json_extract(e.value, '$[0]') AS INTEGER) AS c0, " in step
    assert "ELSE json_extract(e.value, '$[1]') END AS c1" in step
    assert step.endswith('WHERE true ON CONFLICT (`id`) DO UPDATE SET `a"``%b` = EXCLUDED.`a"``%b`')
    (step,) = target(SqliteDialect(), DELETE).steps
    assert step.startswith("DELETE FROM `s`.`o'\"``t` WHERE (`id`) IN (SELECT CAST(")


def test_members_of_values_without_schema_become_what_their_columns_are() -> None:
    layout = RowLayout(Operation.WRITE, CELLS[:1], document="row", members=True)
    steps = {
        dialect.database: dialect.sink_sql(UPSERT).target(TABLE, layout, ("id", "at", 'a"`%b')).steps[0]
        for dialect in (PostgresqlDialect(), MariadbDialect(), SqliteDialect())
    }
    assert "json_to_record(json_build_object('c0', e.value -> 0)) AS k (\"c0\" integer)" in steps["PostgreSQL"]
    record = 'json_to_record(e.value -> 1) AS m ("at" timestamp without time zone, "a""`%b" text)'
    assert record in steps["PostgreSQL"]
    assert """c1 LONGTEXT PATH '$[1]."at"'""" in steps["MariaDB"]
    assert """c2 JSON PATH '$[1]."a\\\\"`%b"'""" in steps["MariaDB"]
    assert """json_extract(e.value, '$[1]."at"')""" in steps["SQLite"]


@pytest.mark.parametrize(
    ("dialect", "statement"),
    [(PostgresqlDialect(), "TRUNCATE TABLE "), (MariadbDialect(), "DELETE FROM "), (SqliteDialect(), "DELETE FROM ")],
)
def test_a_table_is_emptied_within_the_transaction(dialect: Dialect, statement: str) -> None:
    (step,) = dialect.sink_sql(UPSERT).target(TABLE, RowLayout(Operation.TRUNCATE)).steps
    assert step.startswith(statement)
