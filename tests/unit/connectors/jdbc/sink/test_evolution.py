"""Tables that are made and changed for records, and the statements that a person is told instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
import sqlalchemy

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.sink_options import InsertMode, KeyMode, SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import Cell, Operation, RowLayout
from headrace.connectors.jdbc.contract.sink_sql import Target
from headrace.connectors.jdbc.contract.tables import Table, TableId, TableType
from headrace.connectors.jdbc.database.connection import Database
from headrace.connectors.jdbc.dialects.mariadb.dialect import MariadbDialect
from headrace.connectors.jdbc.dialects.mariadb.sink_sql import MariadbSinkSql
from headrace.connectors.jdbc.dialects.postgresql.dialect import PostgresqlDialect
from headrace.connectors.jdbc.sink import evolution
from headrace.connectors.jdbc.sink.evolution import TableError, Tables, _needs_wider
from headrace.plugins.schema import OPTIONAL_STRING, STRING, Schema, SchemaType

INT32 = Schema(SchemaType.INT32)
ID = Cell("id", INT32, True, "v0_0")
NAME = Cell("name", STRING, False, "v0_1")
NOTE = Cell("note", OPTIONAL_STRING, False, "v0_2")
LEVEL = Cell("level", Schema(SchemaType.INT32, default=5), False, "v0_3")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An empty database."""
    found = Database.of({"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}"}, {})
    yield found
    found.close()


def tables(database: Database, **options: object) -> Tables:
    made = SinkOptions(key_mode=KeyMode.RECORD_VALUE, **options)  # type: ignore[arg-type]
    return Tables(database, database.dialect.sink_sql(made))


def write(*cells: Cell) -> RowLayout:
    return RowLayout(Operation.WRITE, cells, "row")


def run(database: Database, statement: str) -> None:
    with database.begin() as connection:
        connection.execute(sqlalchemy.text(statement))


def ddl(database: Database) -> str:
    with database.connect() as connection:
        return str(connection.execute(sqlalchemy.text("SELECT sql FROM sqlite_master WHERE name = 't'")).scalar_one())


def test_a_table_is_made_by_its_first_records_schema(database: Database) -> None:
    tables(database, creates=True).target("t", write(ID, NAME, NOTE, LEVEL))
    assert ddl(database) == (
        "CREATE TABLE `t` (\n`id` INTEGER NOT NULL,\n`name` TEXT NOT NULL,\n`note` TEXT NULL,\n"
        "`level` INTEGER DEFAULT 5,\nPRIMARY KEY(`id`))"
    )


def test_a_table_that_may_not_be_made_is_told_with_its_statement(database: Database) -> None:
    with pytest.raises(TableError, match=r"(?s)Table t is missing and auto-creation is disabled.*CREATE TABLE `t`"):
        tables(database).target("t", write(ID))


@pytest.mark.parametrize(
    ("subprotocol", "name", "why"),
    [
        ("postgresql", "a.public.t", "Table a.public.t is in another database than shop"),
        ("mysql", "a.b.t", "a.b.t names no table: MariaDB has databases and tables, no schemas"),
        ("sqlite", "a.t", "Table a.t is in another database than main"),
        ("sqlite", "a.b.c.t", "'a.b.c.t' names no table: it has 4 parts"),
    ],
)
def test_dots_of_topics_that_name_no_table_are_told_with_the_remedy(subprotocol: str, name: str, why: str) -> None:
    place = "/x.db" if subprotocol == "sqlite" else "//db/shop"
    known = Database.of({"connection.url": f"jdbc:{subprotocol}:{place}"}, {})
    with pytest.raises(TableError, match=re.escape(why)) as told:
        tables(known, creates=True).target(name, write(ID))
    assert 'with table.name.format="${topic}", in double quotes' in str(told.value)
    with pytest.raises(TableError) as told:
        tables(known, table_format=name).target(name, write(ID))
    assert "table.name.format" not in str(told.value)


def test_dots_of_topics_in_the_format_make_one_name(database: Database) -> None:
    run(database, "CREATE TABLE `a.b` (id INTEGER PRIMARY KEY)")
    tables(database, table_format='"${topic}"').target('"a.b"', write(ID))


def test_a_delete_makes_no_table(database: Database) -> None:
    delete = RowLayout(Operation.DELETE, (ID,), "row")
    assert tables(database, creates=True).target("t", delete) == Target()
    tables(database, creates=True).target("t", write(ID, NAME))


def test_columns_are_added_that_may_be_null_or_have_a_default(database: Database) -> None:
    run(database, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    ours = tables(database, evolves=True)
    ours.target("t", write(ID, NOTE, LEVEL))
    assert "`note` TEXT NULL" in ddl(database)
    assert "`level` INTEGER DEFAULT 5" in ddl(database)
    with pytest.raises(TableError, match=r"(?s)Cannot ALTER TABLE t to add missing field name.*ADD `name` TEXT NULL"):
        ours.target("t", write(ID, NAME))


def test_without_evolution_the_statement_is_told(database: Database) -> None:
    run(database, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    missing = r"(?s)Table t is missing fields \(note\) and auto-evolution is disabled; run: ALTER TABLE `t`.ADD `note`"
    with pytest.raises(TableError, match=missing):
        tables(database).target("t", write(ID, NOTE))


def test_columns_are_found_whatever_their_case(database: Database) -> None:
    run(database, "CREATE TABLE t (ID INTEGER PRIMARY KEY, Note TEXT)")
    (step,) = tables(database).target("t", write(ID, NOTE)).steps
    assert "(`ID`, `Note`)" in step


def test_names_without_quotes_are_folded_as_the_server_does(database: Database) -> None:
    dialect = PostgresqlDialect()
    ours = Tables(database, dialect.sink_sql(SinkOptions(quotes=False)))
    assert ours._id("Shop.ÉTÉ_Orders") == TableId(None, "shop", "ÉtÉ_orders")
    assert Tables(database, dialect.sink_sql(SinkOptions()))._id("Shop.Orders") == TableId(None, "Shop", "Orders")


def test_an_upsert_needs_a_unique_key_of_its_columns(database: Database) -> None:
    run(database, "CREATE TABLE t (id INTEGER, name TEXT, UNIQUE (name, id))")
    ours = tables(database, insert_mode=InsertMode.UPSERT)
    with pytest.raises(TableError, match=r"run: ALTER TABLE `t` ADD PRIMARY KEY \(`id`\)"):
        ours.target("t", write(ID, NAME))
    ours.target("t", write(ID, Cell("name", STRING, True, "v0_1")))


def test_members_without_a_column_are_named(database: Database) -> None:
    run(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    layout = RowLayout(Operation.WRITE, (), "row", members=True)
    with pytest.raises(TableError, match=r"Table t is missing fields \(b, c\)"):
        tables(database).target("t", layout, ("b", "c", "id"))
    ours = tables(database, included=frozenset({"id"}))
    assert "`id`" in ours.target("t", layout, ("b", "c", "id")).steps[0]


@pytest.mark.parametrize(
    ("kind", "schema", "wider"),
    [
        (Kind.INT32, SchemaType.INT64, True),
        (Kind.INT64, SchemaType.INT32, False),
        (Kind.FLOAT32, SchemaType.FLOAT64, True),
        (Kind.INT32, SchemaType.FLOAT64, False),
        (Kind.STRING, SchemaType.INT64, False),
    ],
)
def test_only_a_type_that_holds_all_old_values_is_wider(kind: Kind, schema: SchemaType, wider: bool) -> None:
    column = DatabaseColumn("c", "whatever", kind)
    assert _needs_wider(column, Schema(schema)) is wider
    assert not _needs_wider(DatabaseColumn("c", "whatever", kind, autoincrement=True), Schema(schema))


def test_why_a_table_could_not_be_changed_is_told_with_the_statement(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(database, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    ours = tables(database, evolves=True)
    monkeypatch.setattr(type(ours), "_additions", lambda *_: ["ALTER TABLE t ADD COLUMN note TEXT UNIQUE"])
    why = r"(?s)did not get its columns: .*UNIQUE column.*; the statement was: ALTER TABLE t ADD COLUMN"
    with pytest.raises(TableError, match=why):
        ours.target("t", write(ID, NOTE))


def test_a_table_that_is_not_found_once_it_was_made_is_told(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(database.dialect), "describe", lambda *_: {})
    with pytest.raises(TableError, match=r"(?s)Table t was made, but is not to be found.*CREATE TABLE `t`"):
        tables(database, creates=True).target("t", write(ID))


def test_a_table_is_looked_at_once_and_its_targets_are_bounded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = [f"c{number}" for number in range(12)]
    run(database, f"CREATE TABLE t ({', '.join(columns)})")
    ours, layout = tables(database), RowLayout(Operation.WRITE, (), "row", members=True)
    described = Mock(wraps=ours._described)
    monkeypatch.setattr(ours, "_described", described)
    monkeypatch.setattr(evolution, "_MOST_TARGETS", 10)
    for number, name in enumerate(columns):
        ours.target("t", layout, (name,))
        assert ours.target("t", layout, ("c0",)) is ours.target("t", layout, ("c0",)), number
    assert len(ours._targets) == 10
    assert described.call_count == 1
    run(database, "ALTER TABLE t ADD COLUMN late")
    ours.target("t", layout, ("late",))
    assert described.call_count == 2, "what it lacks may be there by now"


@pytest.mark.parametrize(("columns", "schema", "exact"), [("k TEXT", STRING, False), ("k INT", INT32, True)])
def test_texts_may_be_one_key_though_they_differ(database: Database, columns: str, schema: Schema, exact: bool) -> None:
    run(database, f"CREATE TABLE t ({columns} PRIMARY KEY)")
    assert tables(database).target("t", write(Cell("k", schema, True, "v0_0"))).exact is exact


def test_two_fields_are_not_one_column(database: Database) -> None:
    run(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    upper = Cell("NAME", STRING, False, "v0_3")
    tables(database).target("t", write(ID, upper))
    with pytest.raises(TableError, match="Fields name and NAME are both column name of table t"):
        tables(database).target("t", write(ID, NAME, upper))
    layout = RowLayout(Operation.WRITE, (ID,), "row", members=True)
    tables(database).target("t", layout, ("id", "name"))
    with pytest.raises(TableError, match="Fields name and Name are both column name"):
        tables(database).target("t", layout, ("id", "name", "Name"))


@pytest.mark.parametrize(("kind", "evolves", "expected"), [("TABLE", True, 1), ("TABLE", False, 0), ("VIEW", True, 0)])
def test_a_type_is_widened_only_in_tables_and_where_they_may_be_changed(
    database: Database, kind: str, evolves: bool, expected: int
) -> None:
    sql = MariadbSinkSql(MariadbDialect(), SinkOptions(evolves=evolves, widens=True))
    table = Table(TableId(None, None, "t"), TableType(kind), (DatabaseColumn("id", "int(11)", Kind.INT32),))
    wide = Cell("id", Schema(SchemaType.INT64), False, "v0_0")
    assert len(Tables(database, sql)._narrow(table, write(wide))) == expected


def test_a_record_without_any_field_is_no_row(database: Database) -> None:
    run(database, "CREATE TABLE t (id INTEGER PRIMARY KEY)")
    layout = RowLayout(Operation.WRITE, (), "row", members=True)
    for ours in (tables(database), tables(database, excluded=frozenset({"id"}))):
        with pytest.raises(TableError, match="No fields found using key and value schemas for table: t"):
            ours.target("t", layout, ("id",) if ours._options.excluded else ())


def test_two_values_for_one_column_are_refused(database: Database) -> None:
    run(database, "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")
    ours = tables(database)
    for other in ("name", "NAME"):
        with pytest.raises(TableError, match=f"Fields name and {other} are both column name of table t"):
            ours.target("t", write(ID, NAME, Cell(other, STRING, False, "v0_9")))
    with_members = RowLayout(Operation.WRITE, (ID,), "row", members=True)
    ours.target("t", with_members, ("id", "name"))  # the key is one of the members
    with pytest.raises(TableError, match="Fields id and ID are both column id"):
        ours.target("t", with_members, ("ID", "name"))
