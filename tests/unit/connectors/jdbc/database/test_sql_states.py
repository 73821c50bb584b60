"""The choice of errors that are worth another try, by the codes of each driver."""

from __future__ import annotations

import sqlite3
from typing import Any

import psycopg
import pymysql
import pytest
from sqlalchemy.exc import DBAPIError

from headrace.connectors.jdbc.database import sql_states


def wrapped(error: Exception) -> DBAPIError:
    return DBAPIError("SELECT geheim", {"x": "geheim"}, error, hide_parameters=True)


def sqlite_error(name: str, code: int) -> sqlite3.OperationalError:
    error: Any = sqlite3.OperationalError("said so")
    error.sqlite_errorname, error.sqlite_errorcode = name, code
    made: sqlite3.OperationalError = error
    return made


@pytest.mark.parametrize(
    ("error", "state", "retriable"),
    [
        (psycopg.errors.DeadlockDetected("d"), "40P01", True),
        (psycopg.errors.SerializationFailure("d"), "40001", True),
        (psycopg.errors.AdminShutdown("d"), "57P01", True),
        (psycopg.errors.TooManyConnections("d"), "53300", True),
        (psycopg.errors.UniqueViolation("d"), "23505", False),
        (psycopg.errors.UndefinedTable("d"), "42P01", False),
        (psycopg.OperationalError("connection refused"), "08006", True),
        (psycopg.OperationalError('FATAL:  password authentication failed for user "u"'), "28000", False),
        (psycopg.OperationalError('FATAL:  database "x" does not exist'), "3D000", False),
        (pymysql.err.OperationalError(1213, "Deadlock found"), "40001", True),
        (pymysql.err.OperationalError(1412, "Table definition has changed"), "40001", True),
        (pymysql.err.OperationalError(2013, "Lost connection"), "08S01", True),
        (pymysql.err.OperationalError(1045, "Access denied"), "28000", False),
        (pymysql.err.OperationalError(1071, "Specified key was too long"), "HY000", False),
        (pymysql.err.IntegrityError(1062, "Duplicate entry"), "23000", False),
        (pymysql.err.InterfaceError(0, ""), "08006", True),
        (sqlite_error("SQLITE_BUSY", 5), "55P03", True),
        (sqlite_error("SQLITE_CONSTRAINT_PRIMARYKEY", 1555), "23000", False),
        (sqlite_error("SQLITE_IOERR_WRITE", 778), "58030", True),
        (sqlite_error("SQLITE_AUTH", 23), "42501", False),
        (sqlite_error("SQLITE_ERROR", 1), "HY000", False),
    ],
    ids=lambda value: f"{type(value).__name__}" if isinstance(value, Exception) else str(value),
)
def test_states(error: Exception, state: str, retriable: bool) -> None:
    for one in (error, wrapped(error)):
        assert sql_states.sql_state(one) == state
        assert sql_states.is_retriable(one) is retriable


def test_messages_tell_the_code_and_neither_statement_nor_values() -> None:
    text = sql_states.message(wrapped(pymysql.err.IntegrityError(1062, "Duplicate entry '5' for key 'PRIMARY'")))
    assert text == "Duplicate entry '5' for key 'PRIMARY' [SQLSTATE 23000, code 1062]"
    assert "geheim" not in sql_states.message(wrapped(psycopg.errors.UniqueViolation("a\n b")))
    assert sql_states.message(psycopg.errors.UniqueViolation("a\n b")) == "a b [SQLSTATE 23505]"
