"""Classifies write failures: records are to blame, the error is retriable, or the task cannot continue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from headrace.connectors.jdbc.database import sql_states
from headrace.connectors.jdbc.database.connection import Database, DatabaseAway, DatabaseError
from headrace.connectors.jdbc.sink.evolution import TableError
from headrace.connectors.jdbc.sink.staging import Altered, RowTooLarge
from headrace.plugins.contracts import RecordsFailed, RetriableError

_NO_RECORDS: Final = ("0A", "25", "26", "28", "3D", "42", "55", "57", "XX")
"""States that no record is to blame for: not supported, the transaction's state, a missing prepared statement, login,
no such database, no right or a bad statement, no table to write into, an operator, a fault of the database.
"""
_RECORDS: Final = ("42804", "42846", "22", "23", "42P10")
"""States of these classes that a value leads to."""
_INTERNAL: Final = "XX000"
"""An internal error: a fault of the database, or a value that an extension's type refuses without a better state."""
_OF_EXTENSIONS: Final = (
    "get_val",
    "parse_hstore",
    "LWGEOM_in",
    "geography_in",
    "pg_error",
    "pg_parser_errhint",
    "pg_unparser_errhint",
)
"""Functions of hstore and PostGIS that refuse values so."""
_SYNTAX: Final = ("42601", "42602", "42622")
"""Syntax errors: in a statement, or in a value, since the text of a tsquery or ltree has its own syntax."""
_OF_STATEMENTS: Final = ("", "scanner_yyerror", "base_yyerror")
"""Functions of PostgreSQL that find syntax errors in a statement."""
_OF_POLICIES: Final = "ExecWithCheckOptions"
"""The function of PostgreSQL that refuses a row by a policy, with the state of a missing privilege."""
_CHANGED: Final = ("42P01", "42703", "42S02", "42S22")
"""A table or column has gone since the statement was made."""
_CHANGED_TYPE: Final = "cached plan must not change result type"
_OF_CACHED_PLANS: Final = "RevalidateCachedQuery"
"""The English text and PostgreSQL's function of the error for a column that was retyped since then. Its state, 0A000,
is also that of features that the server lacks, whatever the record.
"""
_MARIADB_CHECK: Final = 4025
"""MariaDB's code for a row that fails a CHECK. Its JSON type is a text with a CHECK."""
_SQLITE_CHANGED: Final = ("no such table", "no such column", "has no column named")


class RolledBack(DatabaseAway):
    """The database rolled this transaction back to end a deadlock."""


class TableChanged(RetriableError):
    """A table has changed and has to be described again."""


def classified(error: Exception, database: Database) -> Exception:
    """The error for the worker: RecordsFailed if records are to blame, RetriableError, or a fatal one."""
    if isinstance(error, (TableError, RowTooLarge)):
        return RecordsFailed(str(error))
    if isinstance(error, Altered):
        return TableChanged(f"{database.access}: {error}")
    if isinstance(error, (RecordsFailed, RetriableError, DatabaseError)):
        return error
    if not _of_database(error):
        return error
    state, said = sql_states.sql_state(error), sql_states.message(error)
    if sql_states.is_retriable(error):
        found = database.error_of(error)
        return RolledBack(str(found)) if state.startswith("40") else found
    if _is_changed(state, said, error):
        return TableChanged(f"{database.access}: {said}")
    if state.startswith(_NO_RECORDS) and not (state.startswith(_RECORDS) or _is_of_a_row(state, error)):
        return database.error_of(error)
    return RecordsFailed(f"{said}{_remedy(state, said, sql_states.error_code(error))}")


def _remedy(state: str, said: str, code: int) -> str:
    """The remedy, if the database's message does not tell it; else empty."""
    if state == "22003" and "out of range" in said.lower():
        return ". auto.evolve=true with auto.evolve.widen=true gives an integer column the wider type of its field"
    return ". A column of the type JSON takes valid JSON only" if code == _MARIADB_CHECK else ""


def _is_changed(state: str, said: str, error: Exception) -> bool:
    """True if a table or column has changed since the statement was made."""
    if state == "0A000":
        return _CHANGED_TYPE in said or sql_states.source_function(error) == _OF_CACHED_PLANS
    return state in _CHANGED or any(sign in said for sign in _SQLITE_CHANGED)


def _is_of_a_row(state: str, error: Exception) -> bool:
    """True if PostgreSQL raised the error for a row, if the state alone does not tell."""
    function = sql_states.source_function(error)
    if state == _INTERNAL:
        return function in _OF_EXTENSIONS
    return function == _OF_POLICIES or (state in _SYNTAX and function not in _OF_STATEMENTS)


@contextmanager
def classifying(database: Database) -> Iterator[None]:
    """Raises errors inside as `classified` says.

    The database's own error is not their cause: its text is in the message, without the statement.
    """
    try:
        yield
    except Exception as error:
        found = classified(error, database)
        if found is error:
            raise
        raise found from None


def _of_database(error: Exception) -> bool:
    """True for errors of SQLAlchemy, and for a driver's own, as those of COPY."""
    return isinstance(error, SQLAlchemyError) or type(error).__module__.partition(".")[0] in (
        "psycopg",
        "pymysql",
        "sqlite3",
    )
