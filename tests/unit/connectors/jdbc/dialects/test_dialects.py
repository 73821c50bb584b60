"""Names, types, literals and drivers of each dialect, as far as they need no database."""

from __future__ import annotations

import importlib.util
import ssl
from dataclasses import replace
from decimal import Decimal
from typing import Any
from unittest.mock import MagicMock
from zoneinfo import ZoneInfo

import pymysql
import pytest
import sqlalchemy

from headrace.config.settings import Password
from headrace.connectors.jdbc.contract.dialect import Dialect
from headrace.connectors.jdbc.contract.sink_rows import FRACTION
from headrace.connectors.jdbc.contract.tables import TableId
from headrace.connectors.jdbc.contract.url import DatabaseAccess
from headrace.connectors.jdbc.database.installed_dialects import dialect_for, dialects
from headrace.connectors.jdbc.database.jvm_link import JvmAccess
from headrace.connectors.jdbc.dialects.mariadb.dialect import _SESSION
from headrace.plugins.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, SchemaType

SUBPROTOCOLS = ("postgresql", "mariadb", "sqlite")


@pytest.fixture(params=SUBPROTOCOLS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return dialect_for(request.param)


def test_dialects_are_found_by_url_and_by_confluents_names() -> None:
    assert set(dialects()) >= {"PostgreSqlDatabaseDialect", "MySqlDatabaseDialect", "SqliteDatabaseDialect"}
    assert dialect_for("mysql").name == "MySqlDatabaseDialect"
    assert dialect_for("postgresql", "PostgreSqlDatabaseDialect").name == "PostgreSqlDatabaseDialect"
    assert dialect_for("sqlite", "Sqlite").name == "SqliteDatabaseDialect"
    with pytest.raises(ValueError, match=r"jdbc:oracle:.*headrace\.jdbc\.dialect"):
        dialect_for("oracle")
    with pytest.raises(ValueError, match="'Db2DatabaseDialect'"):
        dialect_for("postgresql", "Db2DatabaseDialect")
    with pytest.raises(ValueError, match=r"SqliteDatabaseDialect serves jdbc:sqlite: and not jdbc:postgresql:"):
        dialect_for("postgresql", "SqliteDatabaseDialect")


@pytest.mark.parametrize("name", ["t", 'a"b', "a`b", "a.b", "", "x]y", "'; DROP TABLE t; --", "ä€"])
def test_quoted_names_are_read_back(dialect: Dialect, name: str) -> None:
    if not name:
        with pytest.raises(ValueError, match="names no table"):
            dialect.table_id(dialect.quoted(name))
        return
    assert dialect.table_id(dialect.quoted(name)) == TableId(None, None, name)
    assert dialect.table_id(f"s.{dialect.quoted(name)}").table == name
    quoted = dialect.quoted(name)
    assert quoted[1:-1].replace(quoted[-1] * 2, "").count(quoted[-1]) == 0


def test_parts_of_names() -> None:
    postgresql, mariadb = dialect_for("postgresql"), dialect_for("mariadb")
    assert postgresql.table_id("s.t") == TableId(None, "s", "t")
    assert postgresql.table_id('c."s.x".t') == TableId("c", "s.x", "t")
    assert mariadb.table_id("db.t") == TableId("db", None, "t")
    assert mariadb.table_id('"db".`t`') == TableId("db", None, "t")
    assert str(TableId("c", "s", "t")) == "c.s.t"
    for wrong in ("", "a.b.c.d", "a..b", '"a', '"a"b'):
        with pytest.raises(ValueError, match="names no table"):
            postgresql.table_id(wrong)


def test_names_without_quotes_change_case_and_are_quoted_all_the_same() -> None:
    table = TableId(None, "S", "T; DROP x")
    assert dialect_for("postgresql").name_of(table, quote=False) == '"s"."t; drop x"'
    assert dialect_for("postgresql").name_of(table) == '"S"."T; DROP x"'
    assert dialect_for("mariadb").name_of(TableId("D", None, "T"), quote=False) == "`D`.`T`"


def decimal(scale: int) -> Schema:
    return Schema(SchemaType.BYTES, name=DECIMAL, parameters={"scale": str(scale)})


COLUMNS = [
    (Schema(SchemaType.INT8), "SMALLINT", "TINYINT", "INTEGER"),
    (Schema(SchemaType.INT16), "SMALLINT", "SMALLINT", "INTEGER"),
    (Schema(SchemaType.INT32), "INT", "INT", "INTEGER"),
    (Schema(SchemaType.INT64), "BIGINT", "BIGINT", "INTEGER"),
    (Schema(SchemaType.FLOAT32), "REAL", "FLOAT", "REAL"),
    (Schema(SchemaType.FLOAT64), "DOUBLE PRECISION", "DOUBLE", "REAL"),
    (Schema(SchemaType.BOOLEAN), "BOOLEAN", "TINYINT", "INTEGER"),
    (Schema(SchemaType.STRING), "TEXT", "LONGTEXT", "TEXT"),
    (Schema(SchemaType.BYTES), "BYTEA", "LONGBLOB", "BLOB"),
    (decimal(3), "DECIMAL", "DECIMAL(65,3)", "NUMERIC"),
    (Schema(SchemaType.INT32, name=DATE), "DATE", "DATE", "NUMERIC"),
    (Schema(SchemaType.INT32, name=TIME), "TIME", "TIME(3)", "NUMERIC"),
    (Schema(SchemaType.INT64, name=TIMESTAMP), "TIMESTAMP", "DATETIME(3)", "NUMERIC"),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column[1])
def test_columns_are_made_as_confluents_connector_makes_them(column: tuple[Schema, str, str, str]) -> None:
    schema, *expected = column
    assert [dialect_for(one).column_type(schema) for one in SUBPROTOCOLS] == expected


def test_columns_that_differ_from_confluents() -> None:
    postgresql, mariadb, sqlite = map(dialect_for, SUBPROTOCOLS)
    text = Schema(SchemaType.STRING)
    assert mariadb.column_type(text, key=True) == "VARCHAR(256)"
    assert mariadb.column_type(Schema(SchemaType.BYTES), key=True) == "VARBINARY(1024)"
    for kind, schema, fine in ((TIME, SchemaType.INT32, "TIME(6)"), (TIMESTAMP, SchemaType.INT64, "DATETIME(6)")):
        assert mariadb.column_type(Schema(schema, name=kind, parameters={FRACTION: "6"})) == fine
    long = replace(text, parameters={"__debezium.source.column.length": "40"})
    assert [one.column_type(long) for one in (postgresql, mariadb, sqlite)] == ["VARCHAR(40)", "VARCHAR(40)", "TEXT"]
    array = Schema(SchemaType.ARRAY, value_schema=Schema(SchemaType.INT32))
    assert postgresql.column_type(array) == "INT[]"
    for one, schema in ((mariadb, array), (sqlite, array), (postgresql, Schema(SchemaType.STRUCT))):
        told = "type doesn't have a mapping to the SQL database column type .* that takes JSON, .*field.exclude.list"
        with pytest.raises(ValueError, match=told):
            one.column_type(schema)
    with pytest.raises(ValueError, match="no DECIMAL of scale 31"):
        mariadb.column_type(decimal(31))


LITERALS: list[tuple[Any, Schema, str, str, str]] = [
    (-5, Schema(SchemaType.INT64), "-5", "-5", "-5"),
    (0.1, Schema(SchemaType.FLOAT64), "0.1", "0.1", "0.1"),
    (Decimal("1E+3"), decimal(0), "1000", "1000", "1000"),
    (True, Schema(SchemaType.BOOLEAN), "TRUE", "1", "1"),
    ("it's", Schema(SchemaType.STRING), "'it''s'", "('it''s')", "'it''s'"),
    ("a\\'b", Schema(SchemaType.STRING), "'a\\''b'", "(CONVERT(x'615c2762' USING utf8mb4))", "'a\\''b'"),
    (b"\0\xff", Schema(SchemaType.BYTES), "'\\x00ff'::bytea", "(x'00ff')", "x'00ff'"),
    (1, Schema(SchemaType.INT32, name=DATE), "'1970-01-02'", "'1970-01-02'", "86400000"),
    (1001, Schema(SchemaType.INT32, name=TIME), "'00:00:01.001'", "'00:00:01.001'", "1001"),
    (5, Schema(SchemaType.INT64, name=TIMESTAMP), *["'1970-01-01 01:00:00.005'"] * 2, "5"),
]


@pytest.mark.parametrize("case", LITERALS, ids=lambda case: repr(case[0]))
def test_literals(case: tuple[Any, Schema, str, str, str]) -> None:
    value, schema, *expected = case
    zone = ZoneInfo("Europe/Berlin")
    assert [dialect_for(one).literal(value, schema, zone) for one in SUBPROTOCOLS] == expected


def test_what_has_no_literal(dialect: Dialect) -> None:
    for value, schema in (("\0", Schema(SchemaType.STRING)), ([1], Schema(SchemaType.STRUCT))):
        with pytest.raises(ValueError, match="has no literal"):
            dialect.literal(value, schema)


def access(subprotocol: str, **properties: str) -> DatabaseAccess:
    url = "jdbc:sqlite:/x.db" if subprotocol == "sqlite" else f"jdbc:{subprotocol}://db/shop"
    login = {"connection.user": "u", "connection.password": "geheim"}
    return DatabaseAccess.of({"connection.url": url, **login, **{f"connection.{k}": v for k, v in properties.items()}})


@pytest.mark.parametrize(
    ("subprotocol", "name"),
    [
        ("postgresql", "socketFactory"),
        ("postgresql", "SSLFACTORY"),
        ("postgresql", "authenticationPluginClassName"),
        ("postgresql", "loggerFile"),
        ("mariadb", "queryInterceptors"),
        ("mysql", "autoDeserialize"),
        ("mysql", "allowLoadLocalInfile"),
        ("mysql", "allowUrlInLocalInfile"),
        ("mariadb", "credentialType"),
        ("mariadb", "initSql"),
        ("mariadb", "dumpQueriesOnException"),
        ("mariadb", "includeInnodbStatusInDeadlockExceptions"),
        ("mariadb", "includeThreadDumpInDeadlockExceptions"),
        ("mariadb", "pool"),
        ("mariadb", "registerJmxPool"),
        ("sqlite", "enable_load_extension"),
        ("postgresql", "someNewClassName"),
    ],
)
def test_unsafe_driver_properties_are_forced_after_the_users(subprotocol: str, name: str) -> None:
    dialect = dialect_for(subprotocol)
    given = access(subprotocol, **{name: "true"})
    assert dialect.jvm(given).properties.get(name) != "true"
    assert dialect.refused(given.properties) == [name]
    assert "true" not in dialect.python_url(given)[1].values()


def test_the_local_file_of_mariadb_is_off_whatever_a_user_says() -> None:
    dialect = dialect_for("mariadb")
    given = access("mariadb", allowLocalInfile="true", AllowLocalInfile="true")
    assert {v for k, v in dialect.jvm(given).properties.items() if k.lower() == "allowlocalinfile"} == {"false"}
    assert dialect.python_url(given)[1]["local_infile"] is False


def test_a_session_of_mariadb_is_in_utc_whatever_a_user_says() -> None:
    names = ("timeZone", "serverTimezone", "connectionTimeZone", "forceConnectionTimeZoneToSession", "preserveInstants")
    zones = {**dict.fromkeys(names, "false"), "sessionVariables": "sql_mode='', TIME_ZONE='+05:00'"}
    properties = dialect_for("mariadb").jvm(access("mariadb", **zones, maxQuerySizeToLog="7")).properties
    kept = {"user": "u", "password": Password("geheim"), "maxQuerySizeToLog": "7"}
    forced = {"allowLocalInfile": "false", "permitRedirect": "false"}
    assert properties == {**kept, **forced, "timezone": "UTC", "preserveInstants": "true"}
    harmless = dialect_for("mariadb").jvm(access("mariadb", sessionVariables="max_statement_time=5"))
    assert harmless.properties["sessionVariables"] == "max_statement_time=5"


@pytest.mark.parametrize("name", ["query", "DbTable", "keytab", "Driver", "customSchema", "numPartitions"])
def test_no_property_is_taken_for_an_option_of_sparks(name: str) -> None:
    driver = dialect_for("postgresql").jvm(access("postgresql", **{name: "x", "assumeMinServerVersion": "12"}))
    options = JvmAccess(driver, driver.url).options(5)
    assert "x" not in options.values()
    assert options["assumeMinServerVersion"] == "12"


def test_the_jvms_driver_is_given_secrets_only_beside_the_url(dialect: Dialect) -> None:
    driver = dialect.jvm(access(dialect.subprotocols[0], sslpassword="geheim", keyPassword="geheim"))
    assert "geheim" not in repr(driver)
    if dialect.name != "SqliteDatabaseDialect":
        assert driver.plain_properties()["password"] == "geheim"
    assert "?" not in driver.url
    assert dialect_for("mysql").jvm(access("mysql")).url == "jdbc:mariadb://db/shop"


def test_what_is_not_prepared_is_fetched_bit_by_bit_all_the_same() -> None:
    dialect = dialect_for("postgresql")
    modes = ("extendedForPrepared", "simple")
    given = [dialect.jvm(access("postgresql", preferQueryMode=mode)).plain_properties() for mode in modes]
    assert [properties.get("preferQueryMode") for properties in given] == [None, "simple"]
    assert {properties["cancelSignalTimeout"] for properties in given} == {"2"}


def test_parameters_of_the_jdbc_driver_are_those_of_pythons_where_it_has_them() -> None:
    url, arguments = dialect_for("postgresql").python_url(
        access("postgresql", ssl="true", currentSchema="s", ApplicationName="x", targetServerType="primary")
    )
    assert arguments["sslmode"] == "verify-full"
    assert arguments["client_encoding"] == "UTF8"
    assert arguments["tcp_user_timeout"] == 120_000
    assert arguments["options"] == "-c search_path=s"
    assert arguments["application_name"] == "x"
    assert arguments["target_session_attrs"] == "read-write"
    assert url.password == "geheim"
    _, arguments = dialect_for("postgresql").python_url(access("postgresql", currentSchema="a, b\\c"))
    assert arguments["options"] == "-c search_path=a,\\ b\\\\c"
    _, arguments = dialect_for("sqlite").python_url(access("sqlite", busy_timeout="500"))
    assert arguments["factory"](":memory:").waits_s == 0.5


def test_libpq_is_not_left_to_take_a_password_from_the_workers_environment() -> None:
    url, arguments = dialect_for("postgresql").python_url(
        DatabaseAccess.of({"connection.url": "jdbc:postgresql://db/x"})
    )
    assert (url.password, arguments["password"]) == (None, "")
    assert "password" not in dialect_for("postgresql").python_url(access("postgresql"))[1]


@pytest.mark.parametrize(
    ("given", "verifies", "names"),
    [
        ({"sslMode": "verify-full"}, True, True),
        ({"SSLMODE": "VERIFY_IDENTITY"}, True, True),
        ({"useSSL": "true"}, True, True),
        ({"sslMode": "verify-ca"}, True, False),
        ({"sslMode": "trust"}, False, False),
        ({"sslMode": "REQUIRED"}, False, False),
        ({"useSsl": "true", "trustServerCertificate": "true"}, False, False),
    ],
)
def test_tls_of_mariadb_checks_what_its_mode_says_whatever_authority_is_given(
    given: dict[str, str], verifies: bool, names: bool
) -> None:
    _, arguments = dialect_for("mariadb").python_url(access("mariadb", **given))
    context = arguments["ssl"]
    assert (context.verify_mode is ssl.CERT_REQUIRED, context.check_hostname) == (verifies, names)


def test_tls_of_mariadb_that_is_off_or_preferred() -> None:
    dialect = dialect_for("mysql")
    assert dialect.python_url(access("mysql", sslMode="DISABLED"))[1]["ssl_disabled"] is True
    preferred = access("mysql", sslMode="PREFERRED")  # MariaDB's driver in the JVM has another name for it
    assert dialect.python_url(preferred)[1] == {"local_infile": False}
    assert dialect.jvm(preferred).properties["sslMode"] == "allow"


@pytest.mark.parametrize(
    ("subprotocol", "name", "value", "message"),
    [
        ("mariadb", "sslMode", "verify", "sslMode=verify is none: it is disable, trust"),
        ("mariadb", "connectTimeout", "5s", "connectTimeout=5s is no number of milliseconds"),
        ("sqlite", "busy_timeout", "5s", "busy_timeout=5s is no number of milliseconds"),
        ("mysql", "zeroDateTimeBehavior", "null", "zeroDateTimeBehavior=null is none: it is exception, convertToNull"),
    ],
)
def test_parameters_that_are_wrong(subprotocol: str, name: str, value: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dialect_for(subprotocol).python_url(access(subprotocol, **{name: value}))


URLS = {
    "mysql": (
        "jdbc:mysql://db/shop?zeroDateTimeBehavior=CONVERT_TO_NULL&useSSL=false&allowPublicKeyRetrieval=true"
        "&serverTimezone=UTC&tinyInt1isBit=false&rewriteBatchedStatements=true&socketTimeout=5&autoDeserialize=true"
        "&sessionVariables=time_zone='%2B01:00'",
        ["rewriteBatchedStatements", "serverTimezone", "sessionVariables", "tinyInt1isBit"],
        ["allowPublicKeyRetrieval", "socketTimeout", "zeroDateTimeBehavior"],
    ),
    "mariadb": (
        "jdbc:mariadb://db/shop?sslMode=trust&connectTimeout=5000&yearIsDateType=false&useCompression=true",
        ["yearIsDateType"],
        ["useCompression"],
    ),
    "postgresql": (
        "jdbc:postgresql://db/shop?SSLMODE=require&stringtype=unspecified&reWriteBatchedInserts=true&loginTimeout=5"
        "&ApplicationName=x&socketFactory=y",
        ["reWriteBatchedInserts", "stringtype"],
        ["loginTimeout"],
    ),
    "sqlite": ("jdbc:sqlite:/x.db?busy_timeout=5&date_class=TEXT", [], []),
}


@pytest.mark.parametrize("subprotocol", URLS)
def test_parameters_without_effect_are_named(subprotocol: str) -> None:
    url, always, in_sinks = URLS[subprotocol]
    dialect, given = dialect_for(subprotocol), DatabaseAccess.of({"connection.url": url}).properties
    assert dialect.idle(given, reads=True) == always
    assert dialect.idle(given, reads=False) == sorted([*always, *in_sinks])


def test_files_of_mysqls_driver_are_urls_there_and_paths_here() -> None:
    given = access("mysql", trustCertificateKeyStoreUrl="file:///etc/a%20b.p12")
    properties = dialect_for("mysql").jvm(given).properties
    assert properties["trustCertificateKeyStoreUrl"] == "/etc/a b.p12"
    assert dialect_for("mysql").refused(given.properties) == []


def test_python_drivers_are_installed(dialect: Dialect) -> None:
    assert importlib.util.find_spec(dialect.python_module)


def test_a_server_that_does_not_say_which_it_is_is_connected_to_all_the_same() -> None:
    dialect, connection = dialect_for("mysql"), MagicMock(Error=pymysql.err.Error)
    cursor = connection.cursor.return_value.__enter__.return_value
    cursor.execute.side_effect = [None, pymysql.err.OperationalError(1193, "Unknown system variable 'server_id'")]
    engine = sqlalchemy.create_engine("mysql+pymysql://db/shop")
    dialect.prepare(engine)
    list(engine.pool.dispatch.connect)[-1](connection, None)
    cursor.execute.assert_called_with(_SESSION)
    dialect.interrupt(connection, access("mysql"))
    assert cursor.execute.call_count == 2


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
@pytest.mark.parametrize("is_mariadb", [True, False])
def test_either_server_is_taken_whatever_the_url_calls_it(kind: str, is_mariadb: bool) -> None:
    url, _ = dialect_for(kind).python_url(access(kind))
    ours: Any = url.get_dialect()()
    ours._set_mariadb(is_mariadb, (8, 0, 36))  # as once the server has said what it is
    assert ours.is_mariadb is is_mariadb
