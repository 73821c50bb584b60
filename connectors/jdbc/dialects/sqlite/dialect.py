"""SQLite (3.37 and newer): names, types, drivers.

Its columns take values of any type. Integers and floating-point numbers have 64 bits whatever their column declares, so
INTEGER is INT64 and REAL FLOAT64 (Confluent's connector: INT32 and FLOAT32, which cut them). Dates and times have no
type: they are read from texts as its functions write them and from numbers, which are milliseconds since the epoch.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, tzinfo
from typing import Any, Final

import sqlalchemy
from sqlalchemy import Connection, Engine, event

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.dialect import NO_PROPERTIES, Dialect, JvmDriver, milliseconds
from headrace.connectors.jdbc.contract.literals import number_literal, text_literal
from headrace.connectors.jdbc.contract.sink_options import SinkOptions
from headrace.connectors.jdbc.contract.tables import Table, TableId, TableType
from headrace.connectors.jdbc.contract.url import DatabaseAccess
from headrace.connectors.jdbc.dialects.sqlite.sink_sql import SqliteSinkSql
from headrace.connectors.jdbc.dialects.sqlite.source_sql import SqliteSourceSql
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType, logical

_DAY_MS: Final = 86_400_000
_WAIT_S: Final = 0.25
"""The length of one wait for a lock."""

_MILLIS: Final = "(CAST(strftime('%s', {}) AS INTEGER) * 1000 + CAST(substr(strftime('%f', {}), 4) AS INTEGER))"
_DAYS: Final = (
    f"(CASE typeof({{}}) WHEN 'text' THEN CAST(julianday(date({{}})) - 2440587.5 AS INTEGER) "
    f"WHEN 'blob' THEN NULL ELSE CAST(floor({{}} / {_DAY_MS}.0) AS INTEGER) END)"
)
_TIME_MILLIS: Final = (
    f"(CASE typeof({{}}) WHEN 'text' THEN {_MILLIS} WHEN 'blob' THEN NULL ELSE CAST({{}} AS INTEGER) END % {_DAY_MS})"
)

_TYPES: Final = {
    "BOOLEAN": (Kind.BOOLEAN, "{}"),
    "BOOL": (Kind.BOOLEAN, "{}"),
    "TINYINT": (Kind.INT8, "{}"),
    "SMALLINT": (Kind.INT16, "{}"),
    "INT2": (Kind.INT16, "{}"),
    "DECIMAL": (Kind.DECIMAL, "{}"),
    "NUMERIC": (Kind.NUMERIC, "{}"),
    "DATE": (Kind.DATE, _DAYS),
    "TIME": (Kind.TIME, _TIME_MILLIS),
    "DATETIME": (Kind.TIMESTAMP, "{}"),
    "TIMESTAMP": (Kind.TIMESTAMP, "{}"),
    "BINARY": (Kind.BYTES, "CAST({} AS BLOB)"),
    "VARBINARY": (Kind.BYTES, "CAST({} AS BLOB)"),
}
"""By the declared type's name; others by SQLite's rules of affinity."""

_COLUMNS: Final[Mapping[SchemaType | str, str]] = {
    SchemaType.INT8: "INTEGER",
    SchemaType.INT16: "INTEGER",
    SchemaType.INT32: "INTEGER",
    SchemaType.INT64: "INTEGER",
    SchemaType.FLOAT32: "REAL",
    SchemaType.FLOAT64: "REAL",
    SchemaType.BOOLEAN: "INTEGER",
    SchemaType.STRING: "TEXT",
    SchemaType.BYTES: "BLOB",
    DECIMAL: "NUMERIC",
    DATE: "NUMERIC",
    TIME: "NUMERIC",
    TIMESTAMP: "NUMERIC",
}

_PRAGMAS: Final = ("journal_mode", "busy_timeout", "foreign_keys", "synchronous", "cache_size")
"""The URL's parameters that are passed on: the driver would run any pragma."""


class SqliteDialect(Dialect):
    """SQLite. `DatabaseAccess.url.database` is the file's path."""

    name = "SqliteDatabaseDialect"
    database = "SQLite"
    is_file = True
    subprotocols = ("sqlite",)
    quotes = ("`", "`")
    read_only = "PRAGMA query_only = ON"
    lasting = frozenset({"journal_mode"})
    clock = (
        "SELECT CAST(strftime('%s', 'now') AS INTEGER) * 1000000"
        " + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000"
    )
    jdbc_class = "org.sqlite.JDBC"
    python_module = "sqlite3"
    python_package = "a Python that was built with sqlite3"

    def unreachable(self, table: TableId, access: DatabaseAccess) -> str | None:
        """Refuses tables of other databases: none is attached to a connection."""
        if table.catalog is None and table.schema in (None, "main"):
            return None
        return f"Table {table} is in another database than main, and SQLite's connections here have no other"

    def tables(self, connection: Connection, catalog: str | None = None) -> Sequence[tuple[TableId, TableType]]:
        """Tables and views of the file itself, without attached ones."""
        rows = connection.exec_driver_sql(
            "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' "
            "ESCAPE '\\' ORDER BY name"
        )
        return [(TableId(None, None, name), TableType(kind.upper())) for name, kind in rows]

    def describe(self, connection: Connection, tables: Sequence[TableId]) -> dict[TableId, Table]:
        """Reads the pragmas, which are functions and read nothing from the disk after the first time."""
        kinds = {table.table.lower(): kind for table, kind in self.tables(connection)}
        found = {}
        for table in tables:
            kind = kinds.get(table.table.lower())
            if kind is not None:
                found[table] = _described(connection, table, kind)
        return found

    def columns_of(self, connection: Connection, query: str) -> tuple[DatabaseColumn, ...]:
        """Reads a view of this connection alone: it knows the columns that results come from."""
        view = "temp.headrace_columns"
        plain = connection.execution_options(no_parameters=True)
        with _may_make_views(plain):
            plain.exec_driver_sql(f"CREATE TEMP VIEW headrace_columns AS SELECT * FROM (\n{query}\n)")
            try:
                described = "SELECT name, type FROM pragma_table_xinfo('headrace_columns', 'temp')"
                rows = plain.exec_driver_sql(described).all()
            finally:
                plain.exec_driver_sql(f"DROP VIEW {view}")
        return tuple(_column(name, declared) for name, declared in rows)

    def new_columns(
        self, connect: Callable[[], AbstractContextManager[Connection]], specified: Sequence[tuple[str, str]]
    ) -> tuple[DatabaseColumn, ...]:
        """Reads the declared types, as for columns that exist."""
        return tuple(_column(name, declared) for name, declared in specified)

    def column_type(self, schema: Schema, key: bool = False) -> str:
        """The type of a new column for this schema, as Confluent's connector chooses it.

        Errors: ValueError if there is none.
        """
        found = _COLUMNS.get(logical(schema) or schema.type)
        if found is None:
            raise self.no_type(schema)
        return found

    def literal(self, value: Any, schema: Schema, zone: tzinfo = UTC) -> str:
        """A constant; dates and times as their stored numbers."""
        if (kind := logical(schema)) in (DATE, TIME, TIMESTAMP):
            return str(int(value) * (_DAY_MS if kind == DATE else 1))
        if schema.type is SchemaType.BOOLEAN:
            return "1" if value else "0"
        if isinstance(value, bytes):
            return f"x'{value.hex()}'"
        if isinstance(value, str):
            return text_literal(value)
        return number_literal(value, schema)

    def source_sql(self, properties: Mapping[str, str] = NO_PROPERTIES) -> SqliteSourceSql:
        """The SQL of a source's queries."""
        return SqliteSourceSql(self.quoted)

    def sink_sql(self, options: SinkOptions) -> SqliteSinkSql:
        """The SQL that a sink writes with."""
        return SqliteSinkSql(self, options)

    def python_url(self, access: DatabaseAccess) -> tuple[sqlalchemy.URL, dict[str, Any]]:
        """sqlite3's URL and arguments; without a busy_timeout a lock is waited for 30 s."""
        pragmas = {"busy_timeout": "30000", **self._pragmas(access)}
        waits_s = milliseconds("busy_timeout", pragmas.pop("busy_timeout")) / 1000
        arguments = {
            "timeout": min(waits_s, _WAIT_S),
            "check_same_thread": False,
            "factory": _opening(waits_s, pragmas),
        }
        return sqlalchemy.URL.create("sqlite", database=access.url.database), arguments

    def jvm(self, access: DatabaseAccess) -> JvmDriver:
        """Xerial's URL and properties."""
        pragmas = {"busy_timeout": "30000", **self._pragmas(access), "enable_load_extension": "false"}
        return JvmDriver(self.jdbc_class, str(access.url), pragmas)

    def forced(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Keeps only the pragmas that are known to be harmless."""
        return {key: value for key, value in properties.items() if key in _PRAGMAS and re.fullmatch(r"[-\w]+", value)}

    def opened_file(self, connection: Any) -> str | None:
        """The file's name as SQLite has resolved it."""
        return str(connection.execute("PRAGMA database_list").fetchone()[2])

    def interrupt(self, connection: Any, access: DatabaseAccess) -> None:
        """Ends the statement by SQLite's own call; a wait for a lock ends, too."""
        connection.interrupt()

    def prepare(self, engine: Engine) -> None:
        """Makes transactions begin as SQLAlchemy says, with DDL in them.

        The execution option `writes` takes the only writer's lock at once, instead of failing at the first write.
        """

        @event.listens_for(engine, "connect")
        def _set(connection: Any, _: object) -> None:
            connection.isolation_level = None
            for name, value in connection.pragmas.items():
                connection.execute(f"PRAGMA {name} = {value}")

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            writes = connection.get_execution_options().get("writes", False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    def _pragmas(self, access: DatabaseAccess) -> dict[str, str]:
        return self.forced(access.properties)


class _PatientConnection(sqlite3.Connection):
    """Waits for others' locks in short turns: `interrupt` does not end SQLite's own wait."""

    waits_s = 0.0
    pragmas: Mapping[str, str] = {}
    """Set once the connection is in use: one of them may write to the file."""
    interrupted = False

    def cursor(self, *_: Any) -> Any:
        return super().cursor(_PatientCursor)

    def commit(self) -> None:
        """Commits; waits for readers."""
        self.patiently(super().commit)

    def interrupt(self) -> None:
        """Ends the statement; waits for locks fail from now on."""
        self.interrupted = True
        super().interrupt()

    def patiently(self, act: Callable[..., Any], *given: Any) -> Any:
        """The result of `act`, retried for `waits_s` while others hold a lock. Errors: those of `act`."""
        end = time.monotonic() + self.waits_s
        while True:
            began = time.monotonic()
            try:
                return act(*given)
            except sqlite3.OperationalError as error:
                now = time.monotonic()
                # Of two that wait for each other one fails at once.
                waited = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY and now - began > _WAIT_S / 2
                if not waited or now >= end or self.interrupted:
                    raise


class _PatientCursor(sqlite3.Cursor):
    connection: _PatientConnection

    def execute(self, *given: Any) -> Any:
        return self.connection.patiently(super().execute, *given)


def _opening(waits_s: float, pragmas: Mapping[str, str]) -> Callable[..., sqlite3.Connection]:
    """Makes connections with this wait for locks and these pragmas to set."""

    def opened(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        connection = _PatientConnection(*args, **kwargs)
        connection.waits_s, connection.pragmas = waits_s, pragmas
        return connection

    return opened


@contextmanager
def _may_make_views(connection: Connection) -> Iterator[None]:
    """Lifts `query_only`, which refuses temporary views, too; then it is again as it was."""
    reads_only = connection.exec_driver_sql("PRAGMA query_only").scalar_one()
    connection.exec_driver_sql("PRAGMA query_only = OFF")
    try:
        yield
    finally:
        connection.exec_driver_sql(f"PRAGMA query_only = {reads_only}")


def _described(connection: Connection, table: TableId, kind: TableType) -> Table:
    rows = connection.exec_driver_sql(
        'SELECT name, type, "notnull", dflt_value, pk, hidden FROM pragma_table_xinfo(?)', (table.table,)
    ).all()
    key = tuple(row.name for row in sorted(rows, key=lambda row: row.pk) if row.pk)
    columns = tuple(
        _column(
            row.name,
            row.type,
            nullable=not row.notnull and not (row.pk and _is_row_id(row.type, key)),
            autoincrement=bool(row.pk) and _is_row_id(row.type, key),
            has_default=row.dflt_value is not None,
            generated=row.hidden in (2, 3),
        )
        for row in rows
        if row.hidden != 1
    )
    return Table(table, kind, columns, key, _unique(connection, table))


def _is_row_id(declared: str, key: tuple[str, ...]) -> bool:
    """True for INTEGER PRIMARY KEY, literally: it is the number that every row has."""
    return len(key) == 1 and declared.upper() == "INTEGER"


def _unique(connection: Connection, table: TableId) -> tuple[tuple[str, ...], ...]:
    indexes = connection.exec_driver_sql(
        'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial AND origin <> ?', (table.table, "pk")
    ).all()
    return tuple(
        tuple(
            row.name for row in connection.exec_driver_sql("SELECT name FROM pragma_index_info(?)", (index.name,)).all()
        )
        for index in indexes
    )


def _column(name: str, declared: str, **facts: Any) -> DatabaseColumn:
    base, _, sizes = declared.upper().partition("(")
    numbers = [int(number) for number in re.findall(r"\d+", sizes)]
    kind, select = _TYPES.get(base.strip()) or _by_affinity(base)
    if kind in (Kind.DECIMAL, Kind.NUMERIC) and numbers:
        facts |= {"precision": numbers[0], "scale": numbers[1] if len(numbers) > 1 else 0}
    if kind in (Kind.STRING, Kind.BYTES) and numbers:
        facts |= {"length": numbers[0]}
    if kind in (Kind.TIME, Kind.TIMESTAMP):
        facts |= {"precision": 3}
    return DatabaseColumn(name, declared, kind, select=select, **facts)


def _by_affinity(base: str) -> tuple[Kind, str]:
    """The kind of a column by its declared type, and its reading form. Source: sqlite.org/datatype3.html 3.1."""
    if "INT" in base:
        return Kind.INT64, "{}"
    if any(word in base for word in ("CHAR", "CLOB", "TEXT")):
        return Kind.STRING, "CAST({} AS TEXT)"
    if "BLOB" in base:
        return Kind.BYTES, "CAST({} AS BLOB)"
    if any(word in base for word in ("REAL", "FLOA", "DOUB")):
        return Kind.FLOAT64, "{}"
    return Kind.STRING, "CAST({} AS TEXT)"
