"""Tests that any dialect must pass, in an empty database of its kind; for authors of dialects, with pytest.

class TestMine(DialectContract):
    @pytest.fixture
    def dialect(self):
        return MyDialect()

    @pytest.fixture
    def sql_engine(self):
        return sqlalchemy.create_engine(…)
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from sqlalchemy import Connection, CursorResult, Engine

from headrace.connectors.jdbc.contract.columns import DatabaseColumn
from headrace.connectors.jdbc.contract.dialect import Dialect
from headrace.connectors.jdbc.contract.tables import TableId
from headrace.plugins.schema import DATE, DECIMAL, STRING, TIMESTAMP, Schema, SchemaType
from headrace.plugins.testkit.driving import HOSTILE
from headrace.plugins.testkit.promises import holds, keeping, same

NAMES: Final = ("plain", "UPPER", "a.b", 'a"b', "a`b", "a b", "select", "ä€", "'; DROP TABLE plain; --", "x]y", "%s:n?")
SCHEMAS: Final = (
    *(Schema(of) for of in SchemaType if of not in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)),
    *(Schema(of, name=name) for of, name in ((SchemaType.INT32, DATE), (SchemaType.INT64, TIMESTAMP))),
    Schema(SchemaType.BYTES, name=DECIMAL, parameters={"scale": "2"}),
)


class DialectContract:
    """Tests that any dialect must pass; its author overrides two fixtures."""

    @pytest.fixture
    def dialect(self) -> Dialect:
        """Override: the dialect."""
        raise NotImplementedError("override the fixture `dialect`")

    @pytest.fixture
    def sql_engine(self) -> Engine:
        """Override: an empty database."""
        raise NotImplementedError("override the fixture `sql_engine`")

    @pytest.fixture
    def connection(self, sql_engine: Engine) -> Iterator[Connection]:
        """Yield a connection to the database."""
        with sql_engine.connect() as connection:
            yield connection

    def test_names_of_any_kind_are_taken_as_they_are(self, dialect: Dialect, connection: Connection) -> None:
        for name in NAMES:
            table = dialect.table_id(dialect.quoted(name))
            same(table, TableId(None, None, name), "a quoted name is read back as it was")
            with keeping(f"a table and a column may be named {name!r}"):
                column = f"{dialect.identifier(name)} {dialect.column_type(STRING)}"
                run(connection, f"CREATE TABLE {dialect.name_of(table)} ({column})").close()
                found = dialect.describe(connection, [table])[table]
            same([one.name for one in found.columns], [name], "a name is in the database as it was given")
        listed = [table.table for table, _ in dialect.tables(connection)]
        same(sorted(listed), sorted(NAMES), "`tables` lists each table, and none of the database's own")

    def test_values_of_each_type_have_a_column(self, dialect: Dialect, connection: Connection) -> None:
        types = [dialect.column_type(schema) for schema in SCHEMAS]
        columns = ", ".join(f"{dialect.quoted(f'c{number}')} {of}" for number, of in enumerate(types))
        with keeping(f"the database takes each `column_type`: {types}"):
            run(connection, f"CREATE TABLE {dialect.quoted('typed')} ({columns})").close()
            found = dialect.columns_of(connection, f"SELECT * FROM {dialect.quoted('typed')}")
        names = [f"c{number}" for number in range(len(types))]
        same([one.name for one in found], names, "`columns_of` names the columns of a query")

    def test_the_columns_of_a_new_table_are_known_before_it_is_made(
        self, dialect: Dialect, sql_engine: Engine, connection: Connection
    ) -> None:
        specified = [(f"c{number}", dialect.column_type(schema)) for number, schema in enumerate(SCHEMAS)]
        told = dialect.new_columns(sql_engine.connect, specified)
        table = dialect.table_id(dialect.quoted("made"))
        columns = ", ".join(f"{dialect.quoted(name)} {kind}" for name, kind in specified)
        run(connection, f"CREATE TABLE {dialect.quoted('made')} ({columns})").close()
        found = dialect.describe(connection, [table])[table].columns
        promise = "`new_columns` tells what `describe` tells once the table is there"
        same([_facts(one) for one in told], [_facts(one) for one in found], promise)

    def test_a_text_as_a_constant_is_that_text(self, dialect: Dialect, connection: Connection) -> None:
        for text in HOSTILE:
            try:
                literal = dialect.literal(text, STRING)
            except ValueError:
                continue  # a text that the database cannot hold
            with keeping(f"{text[:40]!r} is a constant in a statement"):
                found = run(connection, f"SELECT {literal}").scalar_one()
            same(found, text, "a text as a constant is that text, and runs nothing")

    def test_its_clock_is_right(self, dialect: Dialect, connection: Connection) -> None:
        apart_s = abs(dialect.now_micros(connection) / 1e6 - time.time())
        holds(apart_s < 86_400, "`now_micros` counts microseconds since 1970, in UTC", f"it is {apart_s:.0f} s apart")


def run(connection: Connection, statement: str) -> CursorResult[Any]:
    """Run a statement as it is: nothing in it is a parameter."""
    return connection.execution_options(no_parameters=True).exec_driver_sql(statement)


def _facts(one: DatabaseColumn) -> tuple[Any, ...]:
    """What the statements of a sink depend on."""
    return one.name, one.kind, one.zoned, one.exact, one.scale
