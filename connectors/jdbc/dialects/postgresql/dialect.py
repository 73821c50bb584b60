"""PostgreSQL (12 and newer): names, types, drivers."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import Any, Final

import sqlalchemy
from sqlalchemy import Connection, Engine, event

from headrace.connectors.jdbc.contract.columns import DatabaseColumn
from headrace.connectors.jdbc.contract.debezium_types import (
    JSON,
    UUID,
    XML,
    ZONED_TIME,
    ZONED_TIMESTAMP,
    bit_count,
    is_bits,
    is_point,
)
from headrace.connectors.jdbc.contract.dialect import INTERRUPT_S, NO_PROPERTIES, Dialect, JvmDriver
from headrace.connectors.jdbc.contract.literals import (
    declared_length,
    declared_type,
    number_literal,
    temporal_text,
    text_literal,
)
from headrace.connectors.jdbc.contract.sink_options import SinkOptions
from headrace.connectors.jdbc.contract.tables import Table, TableId, TableType
from headrace.connectors.jdbc.contract.url import Access
from headrace.connectors.jdbc.dialects.postgresql.columns import RELATIONS, columns_of, describe
from headrace.connectors.jdbc.dialects.postgresql.parameters import LIBPQ, OBEYED, OBEYED_BY_JVM
from headrace.connectors.jdbc.dialects.postgresql.sink_sql import PostgresqlSinkSql
from headrace.connectors.jdbc.dialects.postgresql.source_sql import PostgresqlSourceSql
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType, logical

_COLUMNS: Final[Mapping[SchemaType | str, str]] = {
    SchemaType.INT8: "SMALLINT",
    SchemaType.INT16: "SMALLINT",
    SchemaType.INT32: "INT",
    SchemaType.INT64: "BIGINT",
    SchemaType.FLOAT32: "REAL",
    SchemaType.FLOAT64: "DOUBLE PRECISION",
    SchemaType.BOOLEAN: "BOOLEAN",
    SchemaType.STRING: "TEXT",
    SchemaType.BYTES: "BYTEA",
    DECIMAL: "DECIMAL",
    DATE: "DATE",
    TIME: "TIME",
    TIMESTAMP: "TIMESTAMP",
}
_NAMED: Final[Mapping[str, str]] = {
    ZONED_TIMESTAMP: "TIMESTAMPTZ",
    ZONED_TIME: "TIMETZ",
    JSON: "JSON",
    UUID: "UUID",
    XML: "XML",
}
"""Of Debezium's texts."""
_NO_KEYS: Final = ("JSON", "XML")
"""Types whose values cannot be compared."""
_RANGES: Final = ("INT4RANGE", "INT8RANGE", "NUMRANGE", "TSRANGE", "TSTZRANGE", "DATERANGE")
_SOURCE_TYPES: Final = frozenset({"UUID", "JSONB", "INET", "CIDR", "MACADDR", "MACADDR8", "INTERVAL", *_RANGES})
"""Types of columns that Debezium reads as texts; a new column gets the one of the column that its values come from."""


class PostgresqlDialect(Dialect):
    """PostgreSQL."""

    name = "PostgreSqlDatabaseDialect"
    database = "PostgreSQL"
    subprotocols = ("postgresql",)
    default_port = 5432
    clock = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)"
    jdbc_class = "org.postgresql.Driver"
    python_module = "psycopg"
    python_package = "psycopg[binary]"
    unsafe = {  # noqa: RUF012 - a mapping that nobody changes
        "socketFactory": None,
        "socketFactoryArg": None,
        "sslfactory": None,
        "sslfactoryarg": None,
        "sslhostnameverifier": None,
        "sslpasswordcallback": None,
        "authenticationPluginClassName": None,
        "xmlFactoryFactory": None,
        "jaasApplicationName": None,
        "jaasLogin": "false",
        "loggerLevel": None,
        "loggerFile": None,
        "service": None,
    }
    files = frozenset({"sslcert", "sslkey", "sslrootcert"})
    obeyed = OBEYED
    obeyed_by_jvm = OBEYED_BY_JVM

    def folded(self, identifier: str) -> str:
        """Lower case; of letters beyond ASCII the server's locale decides, these stay."""
        return "".join(char.lower() if char.isascii() else char for char in identifier)

    def unreachable(self, table: TableId, access: Access) -> str | None:
        """Refuses tables of other databases: a statement reaches one database only."""
        here = access.url.database or access.user
        if table.catalog in (None, here):
            return None
        return f"Table {table} is in another database than {here}, which PostgreSQL reaches by no statement"

    def tables(self, connection: Connection, catalog: str | None = None) -> Sequence[tuple[TableId, TableType]]:
        """Tables and views in all schemas but the system's; parts of a partitioned table are left to that."""
        rows = connection.execute(sqlalchemy.text(_TABLES))
        return [(TableId(None, schema, name), RELATIONS[kind]) for schema, name, kind in rows]

    def describe(self, connection: Connection, tables: Sequence[TableId]) -> dict[TableId, Table]:
        """By pg_catalog, in three statements for however many tables."""
        # PostgreSQL has no catalogs in names.
        names = [self.name_of(replace(table, catalog=None)) for table in tables]
        return describe(connection, tables, names)

    def columns_of(self, connection: Connection, query: str) -> tuple[DatabaseColumn, ...]:
        """By the server's description of the prepared statement, which does not say whether a column may be null."""
        return columns_of(connection, query)

    def server_zone(self, connection: Connection) -> str | None:
        """`timezone` as sessions begin with it."""
        query = "SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'TimeZone'"
        return str(connection.execute(sqlalchemy.text(query)).scalar_one())

    def column_type(self, schema: Schema, key: bool = False) -> str:
        """The types of Confluent's connector; of Debezium's named types those of its own; arrays of every type that has
        one."""
        source = declared_type(schema)
        if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
            element = source.removeprefix("_").removesuffix("[]")
            return f"{element if element in _SOURCE_TYPES else self.column_type(schema.value_schema)}[]"
        if schema.type is SchemaType.STRING and source in _SOURCE_TYPES:
            return source
        if schema.type is SchemaType.STRING and (named := _NAMED.get(schema.name or "")):
            return "TEXT" if key and named in _NO_KEYS else named
        if is_bits(schema):
            count = bit_count(schema)
            return "BIT VARYING" if count is None else f"BIT({count})"
        if is_point(schema):
            return "POINT"
        if schema.type is SchemaType.STRING and (length := declared_length(schema)):
            return f"VARCHAR({length})"
        found = _COLUMNS.get(logical(schema) or schema.type)
        if found is None:
            raise self.no_type(schema)
        return found

    def literal(self, value: Any, schema: Schema, zone: tzinfo = UTC) -> str:
        """A constant; bytes as bytea, arrays with their type."""
        if value is None:  # an array's item
            return "NULL"
        if schema.type is SchemaType.ARRAY and schema.value_schema is not None:
            items = ", ".join(self.literal(item, schema.value_schema, zone) for item in value)
            return f"ARRAY[{items}]::{self.column_type(schema)}"
        if (kind := logical(schema)) in (DATE, TIME, TIMESTAMP):
            return text_literal(temporal_text(value, kind, zone))
        if schema.type is SchemaType.BOOLEAN:
            return "TRUE" if value else "FALSE"
        if is_bits(schema):
            bits = bin(int.from_bytes(value, "little")).removeprefix("0b")
            return f"B'{bits.zfill(bit_count(schema) or 1)}'"
        if is_point(schema):
            return f"point({float(value['x'])!r}, {float(value['y'])!r})"
        if isinstance(value, bytes):
            return f"'\\x{value.hex()}'::bytea"
        if isinstance(value, str):
            return text_literal(value)
        if isinstance(value, float) and (value != value or abs(value) == float("inf")):
            return f"'{'NaN' if value != value else 'Infinity' if value > 0 else '-Infinity'}'::double precision"
        return number_literal(value, schema)

    def source_sql(self, properties: Mapping[str, str] = NO_PROPERTIES) -> PostgresqlSourceSql:
        """The SQL of a source's queries."""
        return PostgresqlSourceSql(self.quoted)

    def sink_sql(self, options: SinkOptions) -> PostgresqlSinkSql:
        """The SQL that a sink writes with."""
        return PostgresqlSinkSql(self, options)

    def python_url(self, access: Access) -> tuple[sqlalchemy.URL, dict[str, Any]]:
        """psycopg's; of the JDBC driver's parameters those that libpq knows, too."""
        hosts = access.url.hosts
        given = {key.lower(): value for key, value in self.forced(access.properties).items()}
        # COPY is given UTF-8, whatever the server or a role has for its clients.
        arguments: dict[str, Any] = {"client_encoding": "UTF8", **_KEEP_ALIVE}
        arguments |= {ours: given[theirs.lower()] for theirs, ours in LIBPQ.items() if theirs.lower() in given}
        if given.get("ssl", "false").lower() in ("true", ""):
            arguments.setdefault("sslmode", "verify-full")
        if "targetservertype" in given:
            wanted = given["targetservertype"].lower()
            arguments["target_session_attrs"] = _SERVERS.get(wanted, wanted)
        options = [given["options"]] if "options" in given else []
        if "currentschema" in given:
            # Blanks separate options, except after a backslash.
            options.append("-c search_path=" + re.sub(r"([\\\s])", r"\\\1", given["currentschema"]))
        if options:
            arguments["options"] = " ".join(options)
        if given.get("preparethreshold") == "0":  # as with PgBouncer
            arguments["prepare_threshold"] = None
        arguments["host"] = ",".join(host.name for host in hosts)
        arguments["port"] = ",".join(str(host.port or self.default_port) for host in hosts)
        password = access.password.value if access.password is not None else None
        # Else libpq would send the server a password of the worker's own: of PGPASSFILE or ~/.pgpass, and PGPASSWORD.
        arguments["passfile"] = _NO_FILE
        if password is None:
            arguments["password"] = ""
        database = access.url.database or access.user
        return sqlalchemy.URL.create("postgresql+psycopg", access.user, password, database=database), arguments

    def jvm(self, access: Access) -> JvmDriver:
        """pgjdbc's."""
        given = self.forced(access.properties)
        if given.get("preferQueryMode") == "extendedForPrepared":
            del given["preferQueryMode"]  # a source's statements are not prepared: all rows would come at once
        # Without a password it would look for one in the worker's own PGPASSFILE.
        own = {"tcpKeepAlive": "true", "cancelSignalTimeout": str(INTERRUPT_S), "password": ""}
        properties = self.with_login(access, {**own, **given})
        return JvmDriver(self.jdbc_class, str(replace(access.url, subprotocol="postgresql")), properties)

    def interrupt(self, connection: Any, access: Access) -> None:
        """By a request of PostgreSQL's own, which names the session by a secret that no other has."""
        connection.cancel_safe(timeout=INTERRUPT_S)

    def prepare(self, engine: Engine) -> None:
        """Instants are shown in UTC, and numbers with all their digits."""

        @event.listens_for(engine, "connect")
        def _set(connection: Any, _: object) -> None:
            with connection.cursor() as cursor:
                cursor.execute("SET TIME ZONE 'UTC'")
            connection.commit()


_TABLES: Final = """
SELECT n.nspname, c.relname, c.relkind
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'f', 'p', 'v', 'm') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%'
  AND has_table_privilege(c.oid, 'SELECT')
ORDER BY n.nspname, c.relname
"""

_NO_FILE: Final = f"{os.devnull}/none"
"""There can be none of this name: of a file that is not a plain one libpq would warn."""

_KEEP_ALIVE: Final = {
    "keepalives_idle": 60,
    "keepalives_interval": 10,
    "keepalives_count": 6,
    "tcp_user_timeout": 120_000,
}
"""Makes a server whose machine is gone noticed within two minutes."""

_SERVERS: Final = {
    "primary": "read-write",
    "master": "read-write",
    "secondary": "standby",
    "slave": "standby",
    "preferprimary": "any",
    "prefersecondary": "prefer-standby",
    "preferslave": "prefer-standby",
}
