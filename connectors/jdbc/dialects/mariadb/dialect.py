"""MariaDB (10.5 and newer) and MySQL (8.0 and newer): names, types, drivers.

MariaDB's JDBC driver reads both: it speaks to MySQL, too, and MySQL's own is not fetched because of its licence.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import Any, Final

import sqlalchemy
from sqlalchemy import Connection, Engine, event

from headrace.connectors.jdbc.contract.columns import DatabaseColumn
from headrace.connectors.jdbc.contract.dialect import INTERRUPT_S, NO_PROPERTIES, Dialect, JvmDriver, milliseconds
from headrace.connectors.jdbc.contract.literals import declared_length, number_literal, temporal_text, text_literal
from headrace.connectors.jdbc.contract.sink_options import SinkOptions
from headrace.connectors.jdbc.contract.sink_rows import FRACTION
from headrace.connectors.jdbc.contract.tables import Table, TableId, TableType
from headrace.connectors.jdbc.contract.url import DatabaseAccess
from headrace.connectors.jdbc.dialects.mariadb.columns import column_of, columns_of, describe
from headrace.connectors.jdbc.dialects.mariadb.parameters import OBEYED, OBEYED_BY_JVM, ZeroDates, sets_zone
from headrace.connectors.jdbc.dialects.mariadb.sink_sql import MariadbSinkSql
from headrace.connectors.jdbc.dialects.mariadb.source_sql import MariadbSourceSql
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType, logical, scale

_COLUMNS: Final[Mapping[SchemaType | str, str]] = {
    SchemaType.INT8: "TINYINT",
    SchemaType.INT16: "SMALLINT",
    SchemaType.INT32: "INT",
    SchemaType.INT64: "BIGINT",
    SchemaType.FLOAT32: "FLOAT",
    SchemaType.FLOAT64: "DOUBLE",
    SchemaType.BOOLEAN: "TINYINT",
    SchemaType.STRING: "LONGTEXT",
    SchemaType.BYTES: "LONGBLOB",
    DATE: "DATE",
    TIME: "TIME",
    TIMESTAMP: "DATETIME",
}
_IN_KEYS: Final = {SchemaType.STRING: "VARCHAR(256)", SchemaType.BYTES: "VARBINARY(1024)"}
"""Types of texts and bytes in a key, which cannot have a TEXT or BLOB."""
_LONGEST_VARCHAR: Final = 16_383
_MOST_SCALE: Final = 30


class MariadbDialect(Dialect):
    """MariaDB and MySQL."""

    name = "MySqlDatabaseDialect"
    database = "MariaDB"
    subprotocols = ("mariadb", "mysql")
    default_port = 3306
    quotes = ("`", "`")
    has_catalogs = True
    read_only = "START TRANSACTION READ ONLY"
    clock = "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
    jdbc_class = "org.mariadb.jdbc.Driver"
    python_module = "pymysql"
    python_package = "pymysql"
    unsafe = {  # noqa: RUF012 - a mapping that nobody changes
        "allowLocalInfile": "false",
        "allowLoadLocalInfile": None,
        "allowLoadLocalInfileInPath": None,
        "allowUrlInLocalInfile": None,
        "allowMultiQueries": None,
        "autoDeserialize": None,
        "queryInterceptors": None,
        "statementInterceptors": None,
        "exceptionInterceptors": None,
        "connectionLifecycleInterceptors": None,
        "propertiesTransform": None,
        "socketFactory": None,
        "tlsSocketType": None,
        "credentialType": None,
        "initSql": None,
        "pipe": None,
        "permitRedirect": "false",  # the server would choose the host
        "localSocket": None,
        "dumpQueriesOnException": None,
        "includeInnodbStatusInDeadlockExceptions": None,
        "includeThreadDumpInDeadlockExceptions": None,
        "pool": None,
        "registerJmxPool": None,
    }
    files = frozenset(
        {
            "serversslcert",
            "serverrsapublickeyfile",
            "keystore",
            "truststore",
            "clientcertificatekeystoreurl",
            "trustcertificatekeystoreurl",
        }
    )
    obeyed = OBEYED
    obeyed_by_jvm = OBEYED_BY_JVM

    def unreachable(self, table: TableId, access: DatabaseAccess) -> str | None:
        """Refuses a name with a schema: names have two parts."""
        return f"{table} names no table: MariaDB has databases and tables, no schemas" if table.schema else None

    def tables(self, connection: Connection, catalog: str | None = None) -> Sequence[tuple[TableId, TableType]]:
        """Tables and views of the URL's database; without one of all but the server's own."""
        rows = connection.execute(sqlalchemy.text(_TABLES), {"catalog": catalog})
        return [
            (TableId(catalog, None, table), TableType.VIEW if kind == "VIEW" else TableType.TABLE)
            for catalog, table, kind in rows
        ]

    def describe(self, connection: Connection, tables: Sequence[TableId]) -> dict[TableId, Table]:
        """Reads information_schema, in three statements for any number of tables."""
        return describe(connection, tables) if tables else {}

    def columns_of(self, connection: Connection, query: str) -> tuple[DatabaseColumn, ...]:
        """Reads the description of an empty result, in which UUIDs, enums and their like are texts."""
        return columns_of(connection, query)

    def new_columns(
        self, connect: Callable[[], AbstractContextManager[Connection]], specified: Sequence[tuple[str, str]]
    ) -> tuple[DatabaseColumn, ...]:
        """Reads the types' names: no cast makes most of them."""
        return tuple(column_of(name, kind) for name, kind in specified)

    def server_zone(self, connection: Connection) -> str | None:
        """The initial `time_zone` of sessions."""
        query = "SELECT IF(@@global.time_zone = 'SYSTEM', @@system_time_zone, @@global.time_zone)"
        return str(connection.execute(sqlalchemy.text(query)).scalar_one())

    def column_type(self, schema: Schema, key: bool = False) -> str:
        """The type of a new column for this schema, as Confluent's connector chooses it.

        Texts with a declared length get Debezium's type. Errors: ValueError if there is none.
        """
        kind = logical(schema)
        if kind == DECIMAL:
            if not 0 <= scale(schema) <= _MOST_SCALE:
                raise ValueError(f"MariaDB has no DECIMAL of scale {scale(schema)}, only of 0 to {_MOST_SCALE}")
            return f"DECIMAL(65,{scale(schema)})"
        length = declared_length(schema)
        if schema.type is SchemaType.STRING and length and length <= _LONGEST_VARCHAR:
            return f"VARCHAR({length})"
        found = (_IN_KEYS.get(schema.type) if key else None) or _COLUMNS.get(kind or schema.type)
        if found is None:
            raise self.no_type(schema)
        return f"{found}({schema.parameters.get(FRACTION, '3')})" if kind in (TIME, TIMESTAMP) else found

    def literal(self, value: Any, schema: Schema, zone: tzinfo = UTC) -> str:
        """A constant; texts in parentheses: MySQL takes nothing else as the default of a TEXT."""
        if (kind := logical(schema)) in (DATE, TIME, TIMESTAMP):
            return text_literal(temporal_text(value, kind, zone))
        if schema.type is SchemaType.BOOLEAN:
            return "1" if value else "0"
        if isinstance(value, bytes):
            return f"(x'{value.hex()}')"
        if isinstance(value, str):
            # A backslash escapes or not by the server's sql_mode.
            literal = f"CONVERT(x'{value.encode().hex()}' USING utf8mb4)" if "\\" in value else text_literal(value)
            return f"({literal})"
        return number_literal(value, schema)

    def source_sql(self, properties: Mapping[str, str] = NO_PROPERTIES) -> MariadbSourceSql:
        """The SQL of a source's queries."""
        return MariadbSourceSql(self.quoted, ZeroDates.of(properties))

    def sink_sql(self, options: SinkOptions) -> MariadbSinkSql:
        """The SQL that a sink writes with."""
        return MariadbSinkSql(self, options)

    def python_url(self, access: DatabaseAccess) -> tuple[sqlalchemy.URL, dict[str, Any]]:
        """PyMySQL's URL and arguments; several servers are in `hosts`, which `prepare` reads."""
        ZeroDates.of(access.properties)  # raises for a wrong value
        host = access.url.hosts[0]
        password = access.password.value if access.password is not None else None
        url = sqlalchemy.URL.create(
            "mysql+pymysql",  # under MariaDB's own name SQLAlchemy refuses MySQL
            access.user,
            password,
            host.name,
            host.port or self.default_port,
            access.url.database,
            {"charset": "utf8mb4"},
        )
        given = {key.lower(): value for key, value in self.forced(access.properties).items()}
        arguments: dict[str, Any] = {"local_infile": False}
        if len(access.url.hosts) > 1:
            arguments["hosts"] = [(one.name, one.port or self.default_port) for one in access.url.hosts]
        if "connecttimeout" in given:
            arguments["connect_timeout"] = max(1, milliseconds("connectTimeout", given["connecttimeout"]) // 1000)
        return url, arguments | _tls(given)

    def jvm(self, access: DatabaseAccess) -> JvmDriver:
        """MariaDB Connector/J's URL and properties, for jdbc:mysql: as well."""
        mode = "sequential://" if len(access.url.hosts) > 1 else "//"
        url = str(replace(access.url, subprotocol="mariadb")).replace("//", mode, 1)
        given = {key: value for key, value in self.forced(access.properties).items() if not sets_zone(key, value)}
        # MySQL's default, by its name in MariaDB's driver.
        given |= {key: "allow" for key, value in given.items() if _mode(key, value) == "preferred"}
        properties = {**given, "timezone": "UTC", "preserveInstants": "true"}
        return JvmDriver(self.jdbc_class, url, self.with_login(access, properties))

    def idle(self, properties: Mapping[str, str], reads: bool) -> list[str]:
        """As in `Dialect`, and the properties about time zones."""
        zones = {key for key, value in properties.items() if sets_zone(key, value)}
        return sorted({*super().idle(properties, reads), *zones})

    def interrupt(self, connection: Any, access: DatabaseAccess) -> None:
        """Ends the statement by KILL QUERY on another connection.

        Not on another server, whose sessions have the same numbers, nor if servers do not identify themselves.
        """
        if connection.headrace_session is None:
            return
        url, arguments = self.python_url(access)
        arguments.pop("hosts", None)
        arguments |= dict.fromkeys(("connect_timeout", "read_timeout", "write_timeout"), INTERRUPT_S)
        login = {"host": connection.host, "port": connection.port, "user": url.username, "password": url.password or ""}
        with closing(type(connection)(**arguments, **login)) as second, second.cursor() as cursor:
            session, *server = connection.headrace_session
            cursor.execute(_SESSION)
            if cursor.fetchone()[1:] == tuple(server):
                cursor.execute(f"KILL QUERY {session:d}")

    def prepare(self, engine: Engine) -> None:
        """Prepares sessions: TIMESTAMPs in UTC, a lost server machine noticed within two minutes.

        Of several servers the first that answers is taken, as by the JVM's driver.
        """

        @event.listens_for(engine, "do_connect")
        def _connect(dialect: Any, _: object, unnamed: Sequence[Any], named: Mapping[str, Any]) -> Any:
            if "hosts" not in named:
                return None
            others = {key: value for key, value in named.items() if key != "hosts"}
            *first, last = ({**others, "host": name, "port": port} for name, port in named["hosts"])
            for one in first:
                try:
                    return dialect.connect(*unnamed, **one)
                except dialect.loaded_dbapi.OperationalError as error:
                    if error.args[0] not in _NO_ANSWER:
                        raise
            return dialect.connect(*unnamed, **last)

        @event.listens_for(engine, "connect")
        def _set(connection: Any, _: object) -> None:
            for name, value in _KEEP_ALIVE.items():
                if (option := getattr(socket, name, None)) is not None:
                    connection._sock.setsockopt(socket.IPPROTO_TCP, option, value)
            with connection.cursor() as cursor:
                cursor.execute("SET time_zone = '+00:00'")
                connection.headrace_session = None
                with suppress(connection.Error):  # other servers of MySQL's protocol may lack one of these variables
                    cursor.execute(_SESSION)
                    connection.headrace_session = cursor.fetchone()


_SESSION: Final = "SELECT CONNECTION_ID(), @@hostname, @@port, @@server_id"

_KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6, "TCP_USER_TIMEOUT": 120_000}
"""PyMySQL sends keep-alives, but every two hours; some systems lack some of these options."""

_NO_ANSWER: Final = (1040, 1042, 1047, 1053, 2002, 2003, 2005, 2006, 2013)
"""MySQL's codes of a server that is away, full or shutting down, or of a cluster's node that is not ready."""

_TABLES: Final = """
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES
WHERE TABLE_TYPE IN ('BASE TABLE', 'VIEW', 'SYSTEM VERSIONED')
  AND TABLE_SCHEMA LIKE COALESCE(:catalog, REPLACE(DATABASE(), '_', '\\_'), '%')
  AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')
ORDER BY TABLE_SCHEMA, TABLE_NAME
"""


def _mode(name: str, value: str) -> str:
    return value.lower().replace("_", "-") if name.lower() == "sslmode" else ""


_OFF: Final = ("disable", "disabled", "0", "false")
_UNVERIFIED: Final = ("trust", "required")
_VERIFIED: Final = ("verify-ca",)
_NAMED: Final = ("verify-full", "verify-identity", "1", "true")
"""The names of TLS modes in MariaDB's driver and in MySQL's, from none to one that checks the host."""


def _tls(given: Mapping[str, str]) -> dict[str, Any]:
    """PyMySQL's arguments for the TLS parameters of MariaDB's driver and of MySQL's.

    Errors: ValueError for an unknown mode, and for a certificate that cannot be read.
    """
    mode = _mode("sslMode", given.get("sslmode", ""))
    if not mode and given.get("usessl", "").lower() in ("true", "1"):
        mode = "trust" if given.get("trustservercertificate", "").lower() in ("true", "1") else "verify-full"
    if mode in ("", "preferred", "allow"):
        return {}
    if mode in _OFF:
        return {"ssl_disabled": True}
    if mode not in (*_UNVERIFIED, *_VERIFIED, *_NAMED):
        raise ValueError(f"sslMode={given['sslmode']} is none: it is disable, trust, verify-ca or verify-full")
    authority = given.get("serversslcert", "")
    inside = authority.startswith("-----")
    try:
        # PyMySQL's own context checks no host's name if no authority is given.
        context = ssl.create_default_context(
            cafile=None if inside else authority or None, cadata=authority if inside else None
        )
    except OSError as error:
        raise ValueError(f"serverSslCert: the certificate cannot be read: {error}") from None
    context.check_hostname = mode in _NAMED
    context.verify_mode = ssl.CERT_NONE if mode in _UNVERIFIED else ssl.CERT_REQUIRED
    # A certificate that the server has made for itself would fail strict checks.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return {"ssl": context}
