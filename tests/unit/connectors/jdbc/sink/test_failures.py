"""The blame for a failure: the record's, the database's, or nobody's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pymysql
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError, DatabaseLoginRefused
from headrace.connectors.jdbc.sink.evolution import TableError
from headrace.connectors.jdbc.sink.failures import RolledBack, TableChanged, classified, classifying
from headrace.plugins.contracts import RecordsFailed


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An empty database."""
    found = Database.of({"connection.url": f"jdbc:sqlite:{tmp_path / 'a.db'}"}, {})
    yield found
    found.close()


class OfDriver(Exception):
    """As psycopg's."""

    def __init__(self, sqlstate: str, function: str = "") -> None:
        super().__init__("it said so")
        self.sqlstate = sqlstate
        self.diag = SimpleNamespace(source_function=function)


OfDriver.__module__ = "psycopg.errors"


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("22003", RecordsFailed),
        ("22P02", RecordsFailed),
        ("23505", RecordsFailed),
        ("21000", RecordsFailed),
        ("42804", RecordsFailed),
        ("P0001", RecordsFailed),
        ("HY000", RecordsFailed),
        ("40001", RolledBack),
        ("40P01", RolledBack),
        ("08006", DatabaseAway),
        ("57P01", DatabaseAway),
        ("25P03", DatabaseAway),
        ("25P04", DatabaseAway),
        ("42P01", TableChanged),
        ("42703", TableChanged),
        ("42501", DatabaseError),
        ("28P01", DatabaseLoginRefused),
        ("42601", DatabaseError),
        ("25P02", DatabaseError),
        ("55000", DatabaseError),
        ("57P04", DatabaseError),
        ("XX001", DatabaseError),
        ("26000", DatabaseError),
    ],
)
def test_by_its_state(database: Database, state: str, kind: type[Exception]) -> None:
    of_copy, of_sqlalchemy = OfDriver(state), DBAPIError("SELECT secret", None, OfDriver(state))
    for error in (of_copy, of_sqlalchemy):
        found = classified(error, database)
        assert type(found) is kind
        assert f"it said so [SQLSTATE {state}]" in str(found)
        assert "secret" not in str(found)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        ("parse_hstore", RecordsFailed),
        ("pg_parser_errhint", RecordsFailed),
        ("relation_open", DatabaseError),
        ("", DatabaseError),
    ],
)
def test_an_internal_error_is_a_records_fault_only_from_an_extensions_parser(
    database: Database, function: str, kind: type[Exception]
) -> None:
    assert type(classified(OfDriver("XX000", function), database)) is kind


def test_a_type_that_changed_is_read_anew_and_a_feature_that_the_server_lacks_ends_the_task(database: Database) -> None:
    assert type(classified(OfDriver("0A000", "RevalidateCachedQuery"), database)) is TableChanged
    found = classified(OfDriver("0A000", "xml_in"), database)  # PostgreSQL without libxml
    assert type(found) is DatabaseError
    assert "The server lacks this feature" in str(found)


@pytest.mark.parametrize("state", ["26000", "42P05"])
def test_statements_that_a_pool_mixes_up_are_nobodys_fault(database: Database, state: str) -> None:
    found = classified(OfDriver(state), database)
    assert isinstance(found, DatabaseError)
    assert "set connection.prepareThreshold=0" in str(found)


@pytest.mark.parametrize(
    ("code", "kind"), [(1194, DatabaseError), (1449, DatabaseError), (1036, DatabaseAway), (1062, RecordsFailed)]
)
def test_what_is_wrong_with_a_table_of_mariadb_is_not_its_records_fault(
    database: Database, code: int, kind: type[Exception]
) -> None:
    error = DBAPIError("INSERT", None, pymysql.err.OperationalError(code, "it said so"))
    assert type(classified(error, database)) is kind


@pytest.mark.parametrize(
    ("code", "said", "remedy"),
    [
        (1264, "Out of range value for column 'id' at row 1", "auto.evolve.widen=true"),
        (4025, "CONSTRAINT `t.j` failed", "takes valid JSON only"),
        (1406, "Data too long for column 'a'", ""),
    ],
)
def test_the_remedy_that_the_database_does_not_know(database: Database, code: int, said: str, remedy: str) -> None:
    found = classified(DBAPIError("INSERT", None, pymysql.err.DataError(code, said)), database)
    assert isinstance(found, RecordsFailed)
    assert f"{said} [SQLSTATE" in str(found)
    assert remedy in str(found)
    assert str(found).endswith("]") is not bool(remedy)


def test_what_postgresql_advises_is_told(database: Database) -> None:
    error = OfDriver("42804")
    error.diag = SimpleNamespace(
        source_function="f", message_primary="of type x", message_detail="d", message_hint="Rewrite or cast it."
    )
    assert str(classified(error, database)) == "of type x (d); hint: Rewrite or cast it. [SQLSTATE 42804]"


def test_a_file_of_sqlite_that_is_broken_is_not_its_records_fault(database: Database) -> None:
    broken = sqlite3.DatabaseError("database disk image is malformed")
    broken.sqlite_errorname, broken.sqlite_errorcode = "SQLITE_CORRUPT", 11
    assert type(classified(broken, database)) is DatabaseError


def test_what_is_no_databases_stays_what_it_is(database: Database) -> None:
    bug = KeyError("x")
    assert classified(bug, database) is bug
    assert isinstance(classified(TableError("no such column"), database), RecordsFailed)


@pytest.mark.parametrize("statement", ["SELECT 1 FROM t", "SELECT b FROM u", "INSERT INTO u (b) VALUES (1)"])
def test_a_table_or_column_that_has_gone_in_sqlites_words(database: Database, statement: str) -> None:
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE u (a INT)"))
    with pytest.raises(TableChanged), database.begin() as connection, classifying(database):
        connection.execute(text(statement))


def test_the_statement_is_nowhere_in_what_is_raised(database: Database) -> None:
    with pytest.raises(RecordsFailed) as raised, classifying(database):
        raise DBAPIError("SELECT secret", None, OfDriver("22003"))
    assert raised.value.__suppress_context__
