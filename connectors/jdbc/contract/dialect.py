"""The contract of a dialect: everything that differs between databases.

Another database is a subclass of `Dialect` in the entry point group `headrace.jdbc.dialect`, under the name that
`dialect.name` may use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
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
from headrace.connectors.jdbc.contract.url import Access
from headrace.plugins.schema import Schema, SchemaType, logical

WHY_REFUSED: Final = "is not passed on: it may load code, read or write files, or show in errors what is secret"
IDLE: Final = "has no effect here"
NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})
INTERRUPT_S: Final = 2
"""How long a request to end a query may take to reach the server."""


@dataclass(frozen=True)
class JvmDriver:
    """How the JVM's driver reaches a database: its URL has no secret in it, the properties may."""

    class_name: str
    url: str
    properties: Mapping[str, str | Password] = field(repr=False)

    def plain_properties(self) -> dict[str, str]:
        """The properties as the driver takes them, with secrets in plain text."""
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
    """Whether the first of two parts of a name is a catalog (as in MariaDB) and not a schema."""
    is_file: ClassVar[bool] = False
    """Whether a database is a file on the worker's machine."""
    upserts: ClassVar[bool] = True
    clock: ClassVar[str]
    """A statement that answers the database's time. Units: microseconds since the epoch."""
    jdbc_class: ClassVar[str]
    python_module: ClassVar[str]
    """The driver's import name; where it is missing, `python_package` is to be installed."""
    python_package: ClassVar[str]
    unsafe: ClassVar[Mapping[str, str | None]] = {}
    """Driver properties that no user may set, with the values forced on them; None: left out."""
    obeyed: ClassVar[frozenset[str] | None] = None
    """Driver properties, in lower case, that have an effect in the Python driver; None: not known."""
    obeyed_by_jvm: ClassVar[frozenset[str]] = frozenset()
    """Driver properties, in lower case, that have an effect only in the JVM's driver, which a source reads with."""
    files: ClassVar[frozenset[str]] = frozenset()
    """Driver properties, in lower case, whose values are files to read; `database.connection` checks their paths."""

    # Names

    def quoted(self, identifier: str) -> str:
        """The identifier as the database takes it literally; quotes in it are doubled."""
        first, last = self.quotes
        return first + identifier.replace(last, last * 2) + last

    def folded(self, identifier: str) -> str:
        """The identifier in the case that the database gives to one without quotes."""
        return identifier

    def folded_id(self, table: TableId) -> TableId:
        """The table that the name means where it is written without quotes."""
        catalog, schema = (None if part is None else self.folded(part) for part in (table.catalog, table.schema))
        return TableId(catalog, schema, self.folded(table.table))

    def identifier(self, name: str, quote: bool = True) -> str:
        """A name in a statement. `quote=False` (`quote.sql.identifiers=never`) changes its case only: it is quoted in
        any case, so that no name of a topic or field can be read as SQL."""
        return self.quoted(name if quote else self.folded(name))

    def name_of(self, table: TableId, quote: bool = True) -> str:
        """The table's name in a statement; `quote` as in `identifier`."""
        return ".".join(self.identifier(part, quote) for part in table.parts)

    def table_id(self, text: str) -> TableId:
        """The table that `a.b.c` names, its parts quoted or not.

        Errors: ValueError for more than three parts, an empty one and a quote that does not end.
        """
        parts = self._name_parts(text)
        if not 1 <= len(parts) <= 3 or not all(parts):
            raise ValueError(f"{text!r} names no table: it has {len(parts)} parts, not one to three, or an empty one")
        *before, table = parts
        if len(before) == 1 and self.has_catalogs:
            return TableId(before[0], None, table)
        catalog, schema = [None, None, *before][-2:]
        return TableId(catalog, schema, table)

    def unreachable(self, table: TableId, access: Access) -> str | None:
        """The reason that no statement over such a connection reaches this table; None if one may."""
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
        """All tables that can be read except the database's own, in the order of their names.

        `catalog` is a pattern as in `TableFilter`; without one only the catalog that the connection is in.
        """

    @abstractmethod
    def describe(self, connection: Connection, tables: Sequence[TableId]) -> dict[TableId, Table]:
        """Those of the tables that are there, found by the names given (without schema: the one that a statement
        would mean), with few statements for many tables."""

    @abstractmethod
    def columns_of(self, connection: Connection, query: str) -> tuple[DatabaseColumn, ...]:
        """The columns of a SELECT's result, found without running it.

        Errors: sqlalchemy.exc.DBAPIError, or the driver's own, where the database does not take it.
        """

    def now_micros(self, connection: Connection) -> int:
        """The database's time. Units: microseconds since the epoch."""
        return int(connection.execute(sqlalchemy.text(self.clock)).scalar_one())

    def server_zone(self, connection: Connection) -> str | None:
        """The server's default time zone; None where it has none."""
        return None

    # Types and values

    @abstractmethod
    def column_type(self, schema: Schema, key: bool = False) -> str:
        """The type of a new column for values of this schema; with `key`, of one that is part of a key.

        Errors: ValueError for a schema that has none here.
        """

    @abstractmethod
    def literal(self, value: Any, schema: Schema, zone: tzinfo = UTC) -> str:
        """A constant in a statement, as after DEFAULT; the value is as in `Schema.default`, `zone` is `db.timezone`.

        Errors: ValueError for values that have no literal here.
        """

    def no_type(self, schema: Schema) -> ValueError:
        """The error of a schema for which no column can be made."""
        named = f"{schema.name} ({schema.type.name})" if logical(schema) or schema.name else schema.type.name
        text = f"{named} type doesn't have a mapping to the SQL database column type of {self.database}"
        nested = schema.type in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)
        own = " add its column yourself, of a type that takes JSON, or" if nested else ""
        return ValueError(f"{text}:{own} leave the field out by fields.whitelist or field.exclude.list")

    def source_sql(self, properties: Mapping[str, str] = NO_PROPERTIES) -> SourceSql:
        """The SQL of a source's queries; `properties` are those of `Access`."""
        return SourceSql(self.quoted)

    def sink_sql(self, options: SinkOptions) -> SinkSql:
        """The SQL that a sink writes with. Errors: ValueError where this dialect serves no sinks."""
        raise ValueError(f"no sink here knows how to write into {self.database}")

    # Connections

    @abstractmethod
    def python_url(self, access: Access) -> tuple[sqlalchemy.URL, dict[str, Any]]:
        """SQLAlchemy's URL and the arguments of the Python driver's `connect`."""

    @abstractmethod
    def jvm(self, access: Access) -> JvmDriver:
        """The URL and properties for the JVM's driver; unsafe properties are forced over the user's."""

    def prepare(self, engine: Engine) -> None:  # noqa: B027 - most have nothing to do
        """Makes each connection of this engine begin in the state that this dialect expects, such as time zone UTC."""

    def opened_file(self, connection: Any) -> str | None:
        """The file that a new connection of the Python driver has opened; None where the database is no file."""
        return None

    def interrupt(self, connection: Any, access: Access) -> None:  # noqa: B027 - some drivers cannot
        """Ends the running statement of a Python driver's connection with an error; another thread calls it."""

    def with_login(self, access: Access, properties: Mapping[str, str]) -> dict[str, str | Password]:
        """The properties with the login; the driver's own names for it are `user` and `password`."""
        login = {"user": access.user, "password": access.password}
        return {**properties, **{key: value for key, value in login.items() if value is not None}}

    def forced(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties with unsafe ones removed or set to safe values, in whatever case they were written."""
        unsafe = {key.lower() for key in self.unsafe}
        kept = {key: value for key, value in properties.items() if key.lower() not in unsafe and not _loads(key)}
        kept |= self.files_among(kept)
        return kept | {key: value for key, value in self.unsafe.items() if value is not None}

    def refused(self, properties: Mapping[str, str]) -> list[str]:
        """The names among these properties that `forced` does not let through."""
        forced, files = self.forced(properties), self.files_among(properties)
        return sorted(key for key, value in properties.items() if forced.get(key) != files.get(key, value))

    def idle(self, properties: Mapping[str, str], reads: bool) -> list[str]:
        """The names of the properties that are passed on and have no effect; `reads`: true for a source."""
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
    """Whether a driver property, by its name, may load code or read or write files: in today's drivers all such are in
    `unsafe`, later drivers may have more."""
    return any(word in key.lower() for word in _CODE)


def milliseconds(name: str, value: str) -> int:
    """The value of a driver's property that is a time. Errors: ValueError."""
    if not value.isascii() or not value.isdigit():
        raise ValueError(f"{name}={value} is no number of milliseconds")
    return int(value)


def _unquoted(rest: str, mark: str, text: str) -> tuple[str, str]:
    """The part that a quote begins, with doubled quotes made one, and the text after it."""
    part, at = "", 1
    while True:
        end = rest.find(mark, at)
        if end < 0:
            raise ValueError(f"{text!r} names no table: a quote in it does not end")
        part += rest[at:end]
        if not rest.startswith(mark, end + 1):
            return part, rest[end + 1 :]
        part, at = part + mark, end + 2
