"""The contract of a dialect: everything that differs between databases.

A further database is a subclass of `Dialect` in the entry point group `headrace.jdbc.dialect`, under the name for
`dialect.name`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from types import MappingProxyType
from typing import Any, ClassVar, Final
from urllib.parse import unquote, urlsplit

import sqlalchemy
from sqlalchemy import Connection, Engine

from headrace.config.settings import Password
from headrace.connectors.jdbc.contract.columns import DatabaseColumn
from headrace.connectors.jdbc.contract.sink_options import SinkOptions
from headrace.connectors.jdbc.contract.sink_sql import SinkSql
from headrace.connectors.jdbc.contract.source_sql import SourceSql
from headrace.connectors.jdbc.contract.tables import Table, TableId, TableType
from headrace.connectors.jdbc.contract.url import DatabaseAccess
from headrace.plugins.schema import Schema, SchemaType, logical

WHY_REFUSED: Final = "is not passed on: it may load code, read or write files, or show in errors what is secret"
IDLE: Final = "has no effect here"
NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})
INTERRUPT_S: Final = 2
"""A request to end a query reaches the server within this time."""


@dataclass(frozen=True)
class JvmDriver:
    """The JVM driver's way to a database. The URL has no secret in it, the properties may."""

    class_name: str
    url: str
    properties: Mapping[str, str | Password] = field(repr=False)

    def plain_properties(self) -> dict[str, str]:
        """The properties as the driver takes them, secrets in plain text."""
        return {k: v.value if isinstance(v, Password) else v for k, v in self.properties.items()}


class Dialect(ABC):
    """One database's names, types, statements and drivers. Stateless: all instances are alike."""

    name: ClassVar[str]
    """Confluent's name of the dialect: `PostgreSqlDatabaseDialect`."""
    database: ClassVar[str]
    """The database's name in messages: `PostgreSQL`."""
    subprotocols: ClassVar[tuple[str, ...]]
    default_port: ClassVar[int | None] = None
    quotes: ClassVar[tuple[str, str]] = ('"', '"')
    has_catalogs: ClassVar[bool] = False
    """True if the first of two parts of a name is a catalog (as in MariaDB), not a schema."""
    is_file: ClassVar[bool] = False
    """True if a database is a file on the worker's machine."""
    upserts: ClassVar[bool] = True
    read_only: ClassVar[str] = "SET TRANSACTION READ ONLY"
    """The first statement of a transaction that is to refuse to write."""
    clock: ClassVar[str]
    """A query for the database's time. Units: microseconds since the epoch."""
    jdbc_class: ClassVar[str]
    python_module: ClassVar[str]
    """The driver's import name; `python_package` installs it."""
    python_package: ClassVar[str]
    unsafe: ClassVar[Mapping[str, str | None]] = {}
    """Driver properties that no user may set, with the values forced on them; None: left out."""
    obeyed: ClassVar[frozenset[str] | None] = None
    """Driver properties, in lower case, that take effect in the Python driver; None: unknown."""
    obeyed_by_jvm: ClassVar[frozenset[str]] = frozenset()
    """Driver properties, in lower case, that take effect only in the JVM's driver, which a source reads with."""
    files: ClassVar[frozenset[str]] = frozenset()
    """Driver properties, in lower case, that name files to read; `database.connection` checks the paths."""

    # Names

    def quoted(self, identifier: str) -> str:
        """The identifier in quotes, those in it doubled: the database takes it literally."""
        first, last = self.quotes
        return first + identifier.replace(last, last * 2) + last

    def folded(self, identifier: str) -> str:
        """An unquoted identifier in the case that the database gives it."""
        return identifier

    def folded_id(self, table: TableId) -> TableId:
        """The table that this name means if it is written without quotes."""
        catalog, schema = (None if part is None else self.folded(part) for part in (table.catalog, table.schema))
        return TableId(catalog, schema, self.folded(table.table))

    def identifier(self, name: str, quote: bool = True) -> str:
        """A name in a statement, always quoted, so that no name of a topic or field can be read as SQL.

        `quote=False` (`quote.sql.identifiers=never`) changes only its case.
        """
        return self.quoted(name if quote else self.folded(name))

    def name_of(self, table: TableId, quote: bool = True) -> str:
        """The table's name in a statement; `quote` as in `identifier`."""
        return ".".join(self.identifier(part, quote) for part in table.parts)

    def table_id(self, text: str) -> TableId:
        """The table that `a.b.c` names, its parts quoted or not.

        Errors: ValueError for more than three parts, an empty part or an open quote.
        """
        parts = self._name_parts(text)
        if not 1 <= len(parts) <= 3 or not all(parts):
            raise ValueError(f"{text!r} names no table: it has {len(parts)} parts, not one to three, or an empty one")
        *before, table = parts
        if len(before) == 1 and self.has_catalogs:
            return TableId(before[0], None, table)
        catalog, schema = [None, None, *before][-2:]
        return TableId(catalog, schema, table)

    def unreachable(self, table: TableId, access: DatabaseAccess) -> str | None:
        """The reason why no statement over such a connection reaches this table; None if one may."""
        return None

    def _name_parts(self, text: str) -> list[str]:
        first, last = self.quotes
        parts, rest = [], text.strip()
        while True:
            mark = next((pair for pair in ((first, last), ('"', '"')) if rest.startswith(pair[0])), None)
            if mark is None:
                part, dot, rest = rest.partition(".")
            else:
                part, rest = _unquoted(rest, mark[1], text)
                dot, rest = rest[:1], rest[1:]
                if dot not in ("", "."):
                    raise ValueError(f"{text!r} names no table: {dot!r} follows a quoted part")
            parts.append(part)
            if not dot:
                return parts

    # Metadata

    @abstractmethod
    def tables(self, connection: Connection, catalog: str | None = None) -> Sequence[tuple[TableId, TableType]]:
        """All readable tables but the database's own, sorted by name.

        `catalog` is a pattern as in `TableFilter`; without it: the connection's catalog only.
        """

    @abstractmethod
    def describe(self, connection: Connection, tables: Sequence[TableId]) -> dict[TableId, Table]:
        """Describes those of the tables that exist, in few statements; names without schema mean what SQL makes of
        them.
        """

    @abstractmethod
    def columns_of(self, connection: Connection, query: str) -> tuple[DatabaseColumn, ...]:
        """The columns of a SELECT's result, found without running it.

        Errors: sqlalchemy.exc.DBAPIError, or the driver's own, if the database refuses the query.
        """

    def new_columns(
        self, connect: Callable[[], AbstractContextManager[Connection]], specified: Sequence[tuple[str, str]]
    ) -> tuple[DatabaseColumn, ...]:
        """The columns of a new table, by their names and types (`column_type`), as `describe` would describe them.

        Without what else a table says of a column, such as defaults. Errors: as `columns_of`.
        """
        values = ", ".join(f"CAST(NULL AS {kind}) AS {self.quoted(name)}" for name, kind in specified)
        with connect() as connection:
            return self.columns_of(connection, f"SELECT {values}") if values else ()

    def now_micros(self, connection: Connection) -> int:
        """The database's time. Units: microseconds since the epoch."""
        return int(connection.execute(sqlalchemy.text(self.clock)).scalar_one())

    def server_zone(self, connection: Connection) -> str | None:
        """The server's default time zone; None if it has none."""
        return None

    # Types and values

    @abstractmethod
    def column_type(self, schema: Schema, key: bool = False) -> str:
        """The type of a new column for values of this schema; with `key` of one in a key.

        Errors: ValueError if no type fits the schema.
        """

    @abstractmethod
    def literal(self, value: Any, schema: Schema, zone: tzinfo = UTC) -> str:
        """A constant in a statement, as after DEFAULT. The value is as in `Schema.default`, `zone` is `db.timezone`.

        Errors: ValueError if the value has no literal here.
        """

    def no_type(self, schema: Schema) -> ValueError:
        """The error for a schema that no column can be made for."""
        named = f"{schema.name} ({schema.type.name})" if logical(schema) or schema.name else schema.type.name
        text = f"{named} type doesn't have a mapping to the SQL database column type of {self.database}"
        nested = schema.type in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)
        own = " add its column yourself, of a type that takes JSON, or" if nested else ""
        return ValueError(f"{text}:{own} leave the field out by fields.whitelist or field.exclude.list")

    def source_sql(self, properties: Mapping[str, str] = NO_PROPERTIES) -> SourceSql:
        """The SQL of a source's queries; `properties` are those of `DatabaseAccess`."""
        return SourceSql(self.quoted)

    def sink_sql(self, options: SinkOptions) -> SinkSql:
        """The SQL that a sink writes with. Errors: ValueError if this dialect serves no sinks."""
        raise ValueError(f"no sink here knows how to write into {self.database}")

    # Connections

    @abstractmethod
    def python_url(self, access: DatabaseAccess) -> tuple[sqlalchemy.URL, dict[str, Any]]:
        """SQLAlchemy's URL and the arguments of the Python driver's `connect`."""

    @abstractmethod
    def jvm(self, access: DatabaseAccess) -> JvmDriver:
        """The URL and properties for the JVM's driver; unsafe properties override the user's."""

    def prepare(self, engine: Engine) -> None:  # noqa: B027 - most have nothing to do
        """Sets up each new connection of this engine as this dialect expects it, such as in time zone UTC."""

    def opened_file(self, connection: Any) -> str | None:
        """The file that a new connection of the Python driver has opened; None if the database is no file."""
        return None

    def interrupt(self, connection: Any, access: DatabaseAccess) -> None:  # noqa: B027 - some drivers cannot
        """Ends the running statement of a Python driver's connection with an error. Called by another thread."""

    def with_login(self, access: DatabaseAccess, properties: Mapping[str, str]) -> dict[str, str | Password]:
        """The properties with the login, which the driver calls `user` and `password`."""
        login = {"user": access.user, "password": access.password}
        return {**properties, **{key: value for key, value in login.items() if value is not None}}

    def forced(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties with unsafe ones, in any case of letters, removed or made safe."""
        unsafe = {key.lower() for key in self.unsafe}
        kept = {key: value for key, value in properties.items() if key.lower() not in unsafe and not _loads(key)}
        kept |= self.files_among(kept)
        return kept | {key: value for key, value in self.unsafe.items() if value is not None}

    def refused(self, properties: Mapping[str, str]) -> list[str]:
        """The names of the properties that `forced` removes or changes."""
        forced, files = self.forced(properties), self.files_among(properties)
        return sorted(key for key, value in properties.items() if forced.get(key) != files.get(key, value))

    def idle(self, properties: Mapping[str, str], reads: bool) -> list[str]:
        """The names of the passed properties without effect; `reads`: true for a source."""
        if self.obeyed is None:
            return []
        known = self.obeyed | (self.obeyed_by_jvm if reads else frozenset())
        refused = self.refused(properties)
        return sorted(key for key in properties if key.lower() not in known and key not in refused)

    def files_among(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties that name files, as paths: MySQL's driver takes URLs, `file:/path`."""
        named = {key: value for key, value in properties.items() if key.lower() in self.files}
        return {
            key: unquote(urlsplit(value).path) if value.lower().startswith("file:") else value
            for key, value in named.items()
        }


_CODE: Final = (
    "class",
    "factory",
    "plugin",
    "interceptor",
    "callback",
    "verifier",
    "logger",
    "jndi",
    "jaas",
    "script",
    "handler",
    "extension",
    "initsql",
    "localinfile",
    "deserial",
)


def _loads(key: str) -> bool:
    """True if a property's name hints at code or files. Today's such are in `unsafe`; later drivers may have more."""
    return any(word in key.lower() for word in _CODE)


def milliseconds(name: str, value: str) -> int:
    """Parses a driver property that is a time. Errors: ValueError."""
    if not value.isascii() or not value.isdigit():
        raise ValueError(f"{name}={value} is no number of milliseconds")
    return int(value)


def _unquoted(rest: str, mark: str, text: str) -> tuple[str, str]:
    """Splits off a quoted part, doubled quotes made one; returns it and the text after it."""
    part, at = "", 1
    while True:
        end = rest.find(mark, at)
        if end < 0:
            raise ValueError(f"{text!r} names no table: a quote in it does not end")
        part += rest[at:end]
        if not rest.startswith(mark, end + 1):
            return part, rest[end + 1 :]
        part, at = part + mark, end + 2
