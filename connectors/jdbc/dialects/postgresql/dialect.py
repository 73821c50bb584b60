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
from headrace.connectors.jdbc.contract.url import DatabaseAccess
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
"""Types for Debezium's named texts."""
_NO_KEYS: Final = ("JSON", "XML")
"""Types whose values cannot be compared."""
_RANGES: Final = ("INT4RANGE", "INT8RANGE", "NUMRANGE", "TSRANGE", "TSTZRANGE", "DATERANGE")
_SOURCE_TYPES: Final = frozenset({"UUID", "JSONB", "INET", "CIDR", "MACADDR", "MACADDR8", "INTERVAL", *_RANGES})
"""Column types that Debezium reads as texts. A new column gets the type of the column at the source."""


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
        """Lower case for ASCII. Other letters stay: the server's locale decides about them."""
        return "".join(char.lower() if char.isascii() else char for char in identifier)

    def unreachable(self, table: TableId, access: DatabaseAccess) -> str | None:
        """Refuses tables of other databases, which no statement reaches."""
        here = access.url.database or access.user
        if table.catalog in (None, here):
            return None
        return f"Table {table} is in another database than {here}, which PostgreSQL reaches by no statement"

    def tables(self, connection: Connection, catalog: str | None = None) -> Sequence[tuple[TableId, TableType]]:
        """Tables and views of all schemas but the system's; a partitioned table without its parts."""
        rows = connection.execute(sqlalchemy.text(_TABLES))
        return [(TableId(None, schema, name), RELATIONS[kind]) for schema, name, kind in rows]

    def describe(self, connection: Connection, tables: Sequence[TableId]) -> dict[TableId, Table]:
        """Reads pg_catalog, in three statements for any number of tables."""
        names = [self.name_of(replace(table, catalog=None)) for table in tables]
        return describe(connection, tables, names)

    def columns_of(self, connection: Connection, query: str) -> tuple[DatabaseColumn, ...]:
        """Reads the server's description of the prepared statement, which does not tell nullable columns."""
        return columns_of(connection, query)

    def server_zone(self, connection: Connection) -> str | None:
        """The initial `timezone` of sessions."""
        query = "SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'TimeZone'"
        return str(connection.execute(sqlalchemy.text(query)).scalar_one())

    def column_type(self, schema: Schema, key: bool = False) -> str:
        """The type of a new column for this schema, as Confluent's connector chooses it.

        Debezium's named schemas get PostgreSQL's own types, arrays get arrays of these.

        Errors: ValueError if there is none.
        """
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

    def python_url(self, access: DatabaseAccess) -> tuple[sqlalchemy.URL, dict[str, Any]]:
        """psycopg's URL and arguments; of the JDBC driver's parameters those that libpq knows, too."""
        hosts = access.url.hosts
        given = {key.lower(): value for key, value in self.forced(access.properties).items()}
        # COPY is given UTF-8, whatever the server or a role sets for its clients.
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
        # Without these libpq would send the server a password of the worker's own, from PGPASSFILE, ~/.pgpass or
        # PGPASSWORD.
        arguments["passfile"] = _NO_FILE
        if password is None:
            arguments["password"] = ""
        database = access.url.database or access.user
        return sqlalchemy.URL.create("postgresql+psycopg", access.user, password, database=database), arguments

    def jvm(self, access: DatabaseAccess) -> JvmDriver:
        """pgjdbc's URL and properties."""
        given = self.forced(access.properties)
        if given.get("preferQueryMode") == "extendedForPrepared":
            del given["preferQueryMode"]  # a source's statements are not prepared: all rows would come at once
        # Without a password it would look for one in the worker's own PGPASSFILE.
        own = {"tcpKeepAlive": "true", "cancelSignalTimeout": str(INTERRUPT_S), "password": ""}
        properties = self.with_login(access, {**own, **given})
        return JvmDriver(self.jdbc_class, str(replace(access.url, subprotocol="postgresql")), properties)

    def interrupt(self, connection: Any, access: DatabaseAccess) -> None:
        """Ends the statement by PostgreSQL's own cancel request, which names the session by its secret."""
        connection.cancel_safe(timeout=INTERRUPT_S)

    def prepare(self, engine: Engine) -> None:
        """Makes sessions show instants in UTC."""

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
"""This cannot exist. An existing path that is no plain file would make libpq warn."""

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
