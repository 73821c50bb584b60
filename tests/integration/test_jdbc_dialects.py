"""Tests of what the dialects find out of real databases: tables, columns, clocks, and what a query gives."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from sqlalchemy import Connection, Engine

from headrace.connectors.jdbc.contract.columns import DatabaseColumn, Kind
from headrace.connectors.jdbc.contract.dialect import Dialect
from headrace.connectors.jdbc.contract.dialect_contract import DialectContract
from headrace.connectors.jdbc.contract.tables import TableId, TableType
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError
from headrace.connectors.jdbc.database.installed_dialects import dialect_for
from headrace.connectors.jdbc.source.table_filter import TableFilter, discover
from headrace.connectors.jdbc.source.validation import source_problems
from tests.held_ports import held_port
from tests.integration.databases import PASSWORD, MariadbServer, PostgresqlServer
from tests.integration.databases import Database as Given


class TestShippedDialects(DialectContract):
    @pytest.fixture
    def dialect(self, database: Given) -> Dialect:
        return dialect_for(database.kind)

    @pytest.fixture
    def sql_engine(self, database: Given) -> Engine:
        return database.engine


@pytest.fixture
def opened(database: Given) -> Iterator[Database]:
    found = Database.of(database.settings, {})
    yield found
    found.close()


POSTGRESQL = {
    "boolean": "BOOLEAN",
    "smallint": "INT16",
    "integer": "INT32",
    "bigint": "INT64",
    "oid": "INT64",
    "real": "FLOAT32",
    "double precision": "FLOAT64",
    "money": "FLOAT64",
    "numeric": "NUMERIC",
    "numeric(10,2)": "NUMERIC 10 2",
    "numeric(3,-2)": "NUMERIC 3 -2",
    "character(3)": "STRING",
    "character varying(5)": "STRING",
    "text": "STRING",
    "name": "STRING",
    "xml": "STRING",
    "json": "STRING",
    "jsonb": "STRING",
    "uuid": "STRING",
    "mood": "STRING",
    '"Odd ""Mood"': "STRING",
    "interval": "STRING",
    "inet": "STRING",
    "point": "STRING",
    "int4range": "STRING",
    "bit varying(5)": "STRING",
    "bit(1)": "BOOLEAN",
    "bit(8)": "INT8",
    "bit(12)": "BYTES",
    "bytea": "BYTES",
    "date": "DATE",
    "time(3) without time zone": "TIME 3",
    "time with time zone": "TIME 6",
    "timestamp without time zone": "TIMESTAMP 6",
    "timestamp(3) with time zone": "TIMESTAMP 3 zoned",
    "positive": "INT32",
    "price": "NUMERIC 8 3",
    "integer[]": "ARRAY of INT32",
    "mood[]": "ARRAY of STRING",
    "numeric(5,1)[]": "ARRAY of NUMERIC 5 1",
    "timestamp with time zone[]": "ARRAY of TIMESTAMP 6 zoned",
}
MARIADB = {
    "tinyint(1)": "INT8",
    "tinyint(4)": "INT8",
    "tinyint(3) unsigned": "INT16 unsigned",
    "smallint(6)": "INT16",
    "smallint(5) unsigned": "INT32 unsigned",
    "mediumint(9)": "INT32",
    "mediumint(8) unsigned": "INT32 unsigned",
    "int(11)": "INT32",
    "int(10) unsigned": "INT64 unsigned",
    "bigint(20)": "INT64",
    "bigint(20) unsigned": "INT64 unsigned",
    "float": "FLOAT32",
    "double": "FLOAT64",
    "decimal(10,2)": "DECIMAL 10 2",
    "decimal(65,30) unsigned": "DECIMAL 65 30",
    "bit(1)": "INT8",
    "bit(12)": "BYTES",
    "char(3)": "STRING",
    "varchar(5)": "STRING",
    "longtext": "STRING",
    "enum('a','b')": "STRING",
    "set('x','y')": "STRING",
    "uuid": "STRING",
    "inet6": "STRING",
    "binary(4)": "BYTES",
    "varbinary(5)": "BYTES",
    "longblob": "BYTES",
    "point": "BYTES",
    "date": "DATE",
    "year(4)": "DATE",
    "time(3)": "TIME 3",
    "datetime": "TIMESTAMP 0",
    "datetime(6)": "TIMESTAMP 6",
    "timestamp(3)": "TIMESTAMP 3 zoned",
}
SQLITE = {
    "BOOLEAN": "BOOLEAN",
    "TINYINT": "INT8",
    "SMALLINT": "INT16",
    "INT": "INT64",
    "INTEGER": "INT64",
    "UNSIGNED BIG INT": "INT64",
    "REAL": "FLOAT64",
    "DOUBLE PRECISION": "FLOAT64",
    "NUMERIC": "NUMERIC",
    "DECIMAL(10,2)": "DECIMAL 10 2",
    "TEXT": "STRING",
    "NVARCHAR(5)": "STRING",
    "UUID": "STRING",
    "": "STRING",
    "BLOB": "BYTES",
    "DATE": "DATE",
    "TIME": "TIME 3",
    "DATETIME": "TIMESTAMP 3",
    "TIMESTAMP": "TIMESTAMP 3",
}
TYPES = {"postgresql": POSTGRESQL, "mariadb": MARIADB, "sqlite": SQLITE}
BEFORE = {
    "postgresql": [
        "CREATE TYPE mood AS ENUM ('a', 'b')",
        'CREATE TYPE "Odd ""Mood" AS ENUM (\'a\')',
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
        "CREATE DOMAIN price AS numeric(8,3)",
    ]
}


def facts(column: DatabaseColumn) -> str:
    """Kind, precision and scale as one text."""
    element = f" of {facts(column.element)}" if column.element else ""
    numbers = "".join(f" {number}" for number in (column.precision, column.scale) if number is not None)
    flags = " zoned" * column.zoned + " unsigned" * column.unsigned
    return f"{column.kind.name}{element}{numbers}{flags}"


def test_columns_of_every_type_from_the_table_and_from_a_query(database: Given, opened: Database) -> None:
    types = TYPES[database.kind]
    columns = ", ".join(f"c{number} {name} NULL" for number, name in enumerate(types))
    database.execute(*BEFORE.get(database.kind, []), f"CREATE TABLE everything ({columns})")
    with opened.connect() as connection:
        (table,) = discover(connection, opened.dialect, TableFilter())
        found = opened.dialect.describe(connection, [table])[table]
        queried = opened.dialect.columns_of(connection, f"SELECT * FROM {opened.dialect.name_of(table)}")
    assert {column.type_name: facts(column) for column in found.columns} == types
    assert all(column.nullable for column in found.columns)
    assert [column.kind for column in queried] == [column.kind for column in found.columns]
    assert [facts(column) for column in queried] == [facts(column) for column in found.columns]


KEYS = {
    "postgresql": "CREATE TABLE {} (b int, a int, n bigserial, d int DEFAULT 3, "
    "g int GENERATED ALWAYS AS (a * 2) STORED, m int NOT NULL, PRIMARY KEY (a, b), UNIQUE (m))",
    "mariadb": "CREATE TABLE {} (b int, a int, n bigint AUTO_INCREMENT UNIQUE, d int DEFAULT 3, "
    "g int AS (a * 2) STORED, m int NOT NULL, PRIMARY KEY (a, b), UNIQUE (m))",
    "sqlite": "CREATE TABLE {} (b int NOT NULL, a int NOT NULL, n int, d int DEFAULT 3, "
    "g int AS (a * 2) STORED, m int NOT NULL, PRIMARY KEY (a, b), UNIQUE (m))",
}


def test_keys_defaults_and_what_the_database_fills_in(database: Given, opened: Database) -> None:
    dialect = opened.dialect
    name = TableId(None, None, 'Odd "`] Name')
    database.execute(KEYS[database.kind].format(dialect.name_of(name)))
    with opened.connect() as connection:
        found = dialect.describe(connection, [name, TableId(None, None, "nowhere")])
    assert list(found) == [name]
    table = found[name]
    assert table.key == ("a", "b")
    assert ("m",) in table.unique
    assert {column.name for column in table.columns if not column.nullable} >= {"a", "b", "m"}
    assert [column.name for column in table.columns if column.generated] == ["g"]
    assert {column.name for column in table.columns if column.has_default} - {"n"} == {"d"}
    counted = [column.name for column in table.columns if column.autoincrement]
    assert counted == ([] if database.kind == "sqlite" else ["n"])


def test_what_a_query_gives_may_be_null_unless_the_database_says_that_it_is_not(
    database: Given, opened: Database
) -> None:
    database.execute("CREATE TABLE a (id int NOT NULL, note varchar(9))", "CREATE TABLE b (id int NOT NULL)")
    query = "SELECT a.id, a.note, b.id AS other, COUNT(*) AS n FROM a LEFT JOIN b ON b.id = a.id GROUP BY 1, 2, 3"
    with opened.connect() as connection:
        columns = opened.dialect.columns_of(connection, query)
    nullable = [column.nullable for column in columns]
    assert nullable == ([False, True, True, False] if database.kind == "mariadb" else [True, True, True, True])


@pytest.mark.long
def test_of_several_servers_of_mariadb_the_first_that_answers_is_taken(mariadb: Given) -> None:
    url = mariadb.jdbc_url.replace("//", f"//127.0.0.1:{held_port()},")
    opened = Database.of({**mariadb.settings, "connection.url": url}, {})
    for _ in range(2):
        with opened.connect() as connection:
            assert opened.dialect.tables(connection) == []
        opened.close()
    refused = Database.of({**mariadb.settings, "connection.url": url, "connection.password": "wrong"}, {})
    with pytest.raises(DatabaseError, match="1045"), refused.connect():
        pass
    refused.close()


def certificate(folder: Path, name: str) -> Path:
    """A key and a certificate of its own for a server of this name, in one file that everybody may read."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    made = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(key, SHA256())
    file = folder / f"{name}.pem"
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(pem + made.public_bytes(Encoding.PEM))
    file.chmod(0o644)
    return file


def test_tls_of_mariadb_is_refused_to_another_host_than_the_certificates() -> None:
    server = MariadbServer()
    file = certificate(server.folder, "localhost")
    server.options = [f"--ssl-cert={file}", f"--ssl-key={file}", "--require-secure-transport=ON"]
    with server, server.database() as given:
        here, named = given.jdbc_url, given.jdbc_url.replace("127.0.0.1", "localhost")
        strict = "sslMode=verify-full"
        for url in (f"{here}?sslMode=trust", f"{here}?sslMode=verify-ca&serverSslCert={file}",
                    f"{named}?{strict}&serverSslCert={file}"):  # fmt: skip
            with connecting(given, url) as connection:
                assert connection.exec_driver_sql("SHOW STATUS LIKE 'Ssl_cipher'").one()[1]
        for url in (f"{here}?{strict}&serverSslCert={file}", f"{named}?{strict}", f"{named}?sslMode=verify-ca"):
            with (
                pytest.raises((DatabaseAway, DatabaseError), match=r"(?i)certificate.*serverSslCert"),
                connecting(given, url),
            ):
                pass


@contextmanager
def connecting(given: Given, url: str) -> Iterator[Connection]:
    """A connection by this URL, tried once."""
    opened = Database.of({**given.settings, "connection.url": url, "connection.attempts": "1"}, {})
    try:
        with opened.connect() as connection:
            yield connection
    finally:
        opened.close()


def test_sqlites_row_id_counts(sqlite: Given) -> None:
    sqlite.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x INT)", "CREATE TABLE u (id INT PRIMARY KEY)")
    opened = Database.of(sqlite.settings, {})
    with opened.connect() as connection:
        t, u = (opened.dialect.describe(connection, [TableId(None, None, name)]) for name in "tu")
    opened.close()
    assert [column.autoincrement for table in (t, u) for one in table.values() for column in one.columns] == [
        True,
        False,
        False,
    ]


def test_tables_views_and_what_the_database_keeps_for_itself(database: Given, opened: Database) -> None:
    database.execute("CREATE TABLE b (id int)", "CREATE TABLE a (id int)", "CREATE VIEW v AS SELECT id FROM a")
    if database.kind == "postgresql":
        database.execute("CREATE SCHEMA s", "CREATE TABLE s.a (id int) PARTITION BY LIST (id)")
        database.execute("CREATE TABLE s.a1 PARTITION OF s.a FOR VALUES IN (1)")
    with opened.connect() as connection:
        tables = discover(connection, opened.dialect, TableFilter())
        views = discover(connection, opened.dialect, TableFilter(types=frozenset({"VIEW"})))
        kinds = {table.type for table in opened.dialect.describe(connection, tables).values()}
    prefix = {"postgresql": "public.", "mariadb": f"{database.url.database}.", "sqlite": ""}[database.kind]
    expected = [f"{prefix}a", f"{prefix}b", *(["s.a"] if database.kind == "postgresql" else [])]
    assert [str(table) for table in tables] == expected
    assert [str(table) for table in views] == [f"{prefix}v"]
    assert kinds <= {TableType.TABLE, TableType.PARTITIONED_TABLE}


def test_the_clock_is_in_microseconds_since_the_epoch(opened: Database) -> None:
    with opened.connect() as connection:
        before, now, after = time.time(), opened.dialect.now_micros(connection) / 1e6, time.time()
    assert before - 0.01 <= now <= after + 0.01


@pytest.mark.parametrize("query", ["SELECT 1; DROP TABLE t", "SELECT 1) q; DROP TABLE t; --", "DELETE FROM t", "nix"])
def test_a_query_is_one_select_or_nothing(database: Given, opened: Database, query: str) -> None:
    database.execute("CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)")
    with pytest.raises(DatabaseError), opened.connect() as connection:
        opened.dialect.columns_of(connection, query)
    assert database.value("SELECT count(*) FROM t") == 1


def test_percent_signs_and_names_of_a_query(database: Given, opened: Database) -> None:
    quoted = opened.dialect.quoted("50% :of it")
    with opened.connect() as connection:
        columns = opened.dialect.columns_of(connection, f"SELECT 'a%sb' AS x, 1 AS {quoted}")
    assert [column.name for column in columns] == ["x", "50% :of it"]
    assert columns[0].kind is Kind.STRING


@pytest.mark.parametrize("kind", ["postgresql", pytest.param("mariadb", marks=pytest.mark.long)])
def test_refused_logins_and_missing_databases_are_fatal_and_say_what_to_do(
    kind: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    database: Given = request.getfixturevalue(kind)
    caplog.set_level(logging.DEBUG)
    wrong = Database.of({**database.settings, "connection.password": "geheim"}, {})
    with pytest.raises(DatabaseError, match=r"as user headrace.*Check connection\.user") as refused, wrong.connect():
        pass
    nowhere = str(database.settings["connection.url"]).replace(database.url.database or "", "nowhere")
    with (
        pytest.raises(DatabaseError, match="Create the database nowhere") as missing,
        Database.of({**database.settings, "connection.url": nowhere}, {}).connect(),
    ):
        pass
    (problem,) = source_problems(
        {**database.settings, "connection.password": "geheim", "mode": "bulk", "table.whitelist": "t"}, {}
    )
    assert problem.message.startswith("Could not connect to database.")
    for text in (caplog.text, str(refused.value), str(missing.value), str(problem)):
        assert "geheim" not in text
        assert PASSWORD not in text


def test_a_server_that_stops_is_away_and_then_back(postgresql_server: PostgresqlServer, postgresql: Given) -> None:
    opened = Database.of({**postgresql.settings, "connection.attempts": "1"}, {})
    with opened.connect() as connection:
        assert opened.dialect.now_micros(connection)
        postgresql_server.stop()
        try:
            with pytest.raises(DatabaseAway), opened.translated_errors():
                opened.dialect.now_micros(connection)
            with pytest.raises(DatabaseAway), opened.connect():
                pass
        finally:
            postgresql_server.start()
    with opened.connect() as connection:
        assert opened.dialect.now_micros(connection)
    opened.close()
