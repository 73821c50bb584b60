"""The reads of a task from its tables."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.tables import Table, TableId, TableType
from headrace.connectors.jdbc.dialects.postgresql.dialect import PostgresqlDialect
from headrace.connectors.jdbc.dialects.sqlite.dialect import SqliteDialect
from headrace.connectors.jdbc.source.settings import parse
from headrace.connectors.jdbc.source.splits import split_of, split_query, window_of
from headrace.connectors.jdbc.source.tables import (
    SourceError,
    SourceTable,
    TableLayouts,
    listed,
    mode_columns,
    query_facts,
)
from headrace.connectors.jdbc.source.window_query import FoundWindow
from headrace.connectors.jdbc.source.windows import Position, ReadWindow

DIALECT = PostgresqlDialect()
ORDERS = TableId(None, "public", "orders")
COLUMNS = (
    DatabaseColumn("ID", "bigint", Kind.INT64, nullable=False, autoincrement=True),
    DatabaseColumn("changed", "timestamp", Kind.TIMESTAMP, nullable=False),
    DatabaseColumn("seen", "timestamptz", Kind.TIMESTAMP, zoned=True),
    DatabaseColumn("note", "text", Kind.STRING),
)
FACTS = Table(ORDERS, TableType.TABLE, COLUMNS, ("ID",))
BOTH = {"mode": "timestamp+incrementing", "timestamp.column.name": "changed", "incrementing.column.name": "id"}
BERLIN = {"db.timezone": "Europe/Berlin"}


def layout(settings: dict[str, str], facts: Table = FACTS) -> Any:
    table = SourceTable.of_table(ORDERS, DIALECT, "db-")
    return TableLayouts.of(parse(settings), DIALECT.source_sql()).make(table, facts)


def test_a_table_gives_topic_partition_and_from() -> None:
    table = SourceTable.of_table(TableId(None, "s", 'a"b'), DIALECT, "db-")
    assert (table.topic, table.schema_name, table.source) == ('db-a"b', 'a"b', '"s"."a""b" t')
    assert table.partitions == ({"protocol": "1", "table": 's.a"b'}, {"table": 'a"b'})
    query = SourceTable.of_query(parse({"query": "SELECT 1 -- one;\n;"})["query"], "q")
    assert query.partitions == ({"query": "query"},)
    assert (query.topic, query.schema_name, query.source) == ("q", None, "(\nSELECT 1 -- one;\n) t")


def test_a_suffix_may_name_the_table_of_a_bulk_read() -> None:
    table = SourceTable.of_table(ORDERS, DIALECT, "db-", own_name=True)
    made = TableLayouts.of(parse({"mode": "bulk"}), DIALECT.source_sql()).make(table, FACTS)
    select = made.select(table.source, "")
    assert select.startswith('SELECT "public"."orders"."ID" AS "c0", ')
    assert select.endswith(' FROM "public"."orders"')
    assert " t." not in select


@pytest.mark.parametrize(
    ("row_bytes", "measured", "rows"),
    [
        (20, True, 10_000),
        (100, True, 4_000),
        (3_000, True, 133),
        (40_000, True, 10),
        (10 << 20, True, 1),
        (1 << 20, False, 100),
        (20, False, 1_000),
        (800, False, 500),
        (0, False, 1_000),
    ],
)
def test_about_400_kb_are_fetched_at_a_time(row_bytes: int, measured: bool, rows: int) -> None:
    table = SourceTable.of_table(ORDERS, DIALECT, "")
    table.row_bytes, table.measured = row_bytes, measured
    assert table.fetch_size == rows


def test_the_order_is_that_of_the_mode() -> None:
    assert layout(BOTH).order.by == ('t."changed"', 't."ID"')
    assert layout({"mode": "incrementing"}).order.by == ('t."ID"',)
    assert layout({"mode": "bulk"}).order.by == ()
    several = {"mode": "timestamp", "timestamp.column.name": "note2,changed"}
    with pytest.raises(
        SourceError, match=re.escape("Timestamp columns: note2, changed do not exist in table 'public.orders'")
    ):
        layout(several)
    assert layout({**several, "timestamp.column.name": "seen,changed"}).order.by == ('COALESCE(t."seen", t."changed")',)


def test_columns_with_and_without_zone_are_compared_in_utc_only() -> None:
    mixed = {"mode": "timestamp", "timestamp.column.name": "seen,changed"}
    assert layout(mixed).order.by == ('COALESCE(t."seen", t."changed")',)
    assert layout({**mixed, "timestamp.column.name": "seen", "validate.non.null": "false", **BERLIN}).zone is None
    with pytest.raises(SourceError, match=re.escape("[seen, changed] of public.orders are with and without a time")):
        layout({**mixed, **BERLIN})


def test_columns_of_a_query_have_names_of_their_own() -> None:
    with pytest.raises(SourceError, match="The query gives several columns named note: rename all but one"):
        query_facts((*COLUMNS, COLUMNS[3]))


def test_a_moment_is_compared_by_the_clock_of_its_column() -> None:
    zone = {"db.timezone": "Europe/Berlin"}
    plain = layout({**BOTH, **zone})
    assert plain.order.bound(0) == "TIMESTAMP '1970-01-01 00:00:00.000000'"
    assert str(plain.zone) == "Europe/Berlin"
    zoned = layout({**BOTH, **zone, "timestamp.column.name": "seen", "validate.non.null": "false"})
    assert zoned.order.bound(1) == "TIMESTAMPTZ '1970-01-01 00:00:00.000001+00'"
    assert zoned.zone is None


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"incrementing.column.name": "no"}, "Incrementing column: no does not exist in table 'public.orders'"),
        ({"incrementing.column.name": "note"}, "incrementing column note on public.orders because this column is null"),
        ({"timestamp.column.name": "seen"}, "because all of these columns are nullable"),
        ({"timestamp.column.name": "ID"}, "column ID has type bigint, which is no timestamp"),
    ],
)
def test_columns_that_will_not_do(settings: dict[str, str], said: str) -> None:
    with pytest.raises(SourceError, match=said):
        layout({**BOTH, **settings})


def test_a_table_that_nothing_counts() -> None:
    with pytest.raises(SourceError, match="no column that the database counts by itself"):
        layout({"mode": "incrementing"}, Table(ORDERS, TableType.TABLE, COLUMNS[1:]))
    layouts = TableLayouts.of(parse({"mode": "incrementing", "incrementing.column.name": "note"}), DIALECT.source_sql())
    of_query = SourceTable.of_query("SELECT 1", "all")
    query = layouts.make(of_query, query_facts((replace(COLUMNS[3], kind=Kind.INT16),)))
    assert query.order.by == ('t."note"',)
    with pytest.raises(SourceError, match="Invalid type for incrementing column: note of query is text"):
        layouts.make(of_query, query_facts(COLUMNS[3:]))
    of_that_name = SourceTable.of_table(TableId(None, None, "query"), DIALECT, "")
    with pytest.raises(SourceError, match="because this column is nullable"):
        layouts.make(of_that_name, query_facts(COLUMNS[3:]))


@pytest.mark.parametrize(
    ("kind", "scale", "may"),
    [
        (Kind.INT8, None, True),
        (Kind.DECIMAL, 0, True),
        (Kind.NUMERIC, 2, False),
        (Kind.NUMERIC, None, False),
        (Kind.FLOAT64, None, False),
        (Kind.BOOLEAN, None, False),
        (Kind.TIMESTAMP, None, False),
    ],
)
def test_what_may_count(kind: Kind, scale: int | None, may: bool) -> None:
    assert DIALECT.source_sql().may_count(DatabaseColumn("id", "t", kind, scale=scale)) is may


@pytest.mark.parametrize(
    ("column", "micros"),
    [
        (DatabaseColumn("at", "datetime", Kind.TIMESTAMP, precision=0), 1_000_000),
        (DatabaseColumn("at", "timestamp(2)", Kind.TIMESTAMP, precision=2), 10_000),
        (DatabaseColumn("at", "timestamp", Kind.TIMESTAMP), 1),
        (DatabaseColumn("at", "date", Kind.DATE), 86_400_000_000),
    ],
)
def test_the_least_step_of_a_timestamp(column: DatabaseColumn, micros: int) -> None:
    facts = Table(ORDERS, TableType.TABLE, (replace(column, nullable=False), COLUMNS[1]))
    assert layout({"mode": "timestamp", "timestamp.column.name": "at"}, facts).unit == micros
    assert layout({"mode": "timestamp", "timestamp.column.name": "changed,at"}, facts).unit == micros
    assert SqliteDialect().source_sql().unit(column) == max(micros, 1_000_000)


def test_a_layout_is_new_only_where_columns_are() -> None:
    table = SourceTable.of_table(ORDERS, DIALECT, "")
    layouts = TableLayouts.of(parse(BOTH), DIALECT.source_sql())
    first = layouts.make(table, FACTS)
    table.layout, table.facts = first, FACTS
    assert layouts.make(table, Table(ORDERS, TableType.TABLE, COLUMNS)) is first
    changed = layouts.make(table, Table(ORDERS, TableType.TABLE, COLUMNS[:3]))
    assert changed.shape != first.shape


def test_mappings_by_the_full_name() -> None:
    values = parse(
        {
            "mode": "timestamp+incrementing",
            "timestamp.columns.mapping": "public\\.orders:[a|b],public\\.o.*s:[c]",
            "incrementing.column.mapping": ".*orders:id,other:no",
        }
    )
    with pytest.raises(SourceError, match=re.escape("'public.orders' matches more than one")):
        mode_columns(values, "public.orders")
    with pytest.raises(SourceError, match=re.escape("'public.others' does not match any")):
        mode_columns(values, "public.others")
    values["timestamp.columns.mapping"] = values["timestamp.columns.mapping"][:1]
    assert mode_columns(values, "public.orders") == (("a", "b"), "id")


def test_names_in_a_list() -> None:
    assert listed('"public"."a,b","s"."c""d"', ('"', '"')) == ['"public"."a,b"', '"s"."c""d"']
    assert listed("[db].[a,b],c", ("[", "]")) == ["[db].[a,b]", "c"]
    assert listed("", ('"', '"')) == []


@pytest.mark.parametrize(
    "window",
    [
        ReadWindow(Position(5, 3), Position(micros=9)),
        ReadWindow(Position(), Position(micros=9)),
        ReadWindow(Position(5, 3), late=(Position(1, 1), Position(2, 7))),
        ReadWindow(Position(5, 3), again=Position(2)),
    ],
)
def test_a_split_means_its_window(window: ReadWindow) -> None:
    made = layout({**BOTH, "db.timezone": "Asia/Tokyo"})
    table = SourceTable.of_table(ORDERS, DIALECT, "")
    table.loading = True
    split = split_of(FoundWindow(table, window, 10, 100, low=2), made)
    assert window_of(split, made) == window
    reading = split_query(split, table, made)
    assert (reading.offset is None) == (not window.is_late)
    assert (reading.ranges is None) == window.is_late
    assert reading.query.endswith(" ORDER BY r0, r1")
    suffix = "" if window.is_late else " LIMIT 5"
    assert split_query(split, table, made, "LIMIT 5").query.endswith(f" ORDER BY r0, r1{suffix}")
