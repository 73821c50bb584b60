"""Reads a database's error: its code, its text without secrets, and if a retry may help.

The SQLSTATE decides. Codes of MySQL and SQLite are translated first: MySQL's states are too general (a lock time-out is
HY000, as most errors are), SQLite has none.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

_RETRIABLE_CLASSES: Final = ("08", "40", "53", "58")
"""Connection lost, transaction rolled back, resources exhausted, system error."""
_RETRIABLE_STATES: Final = frozenset(
    {
        "25006",  # read only: a standby that becomes, or ceases to be, the primary
        "25P03",  # idle in its transaction, or that took, for longer than allowed
        "25P04",
        "55006",  # object in use
        "55P03",  # lock not available
        "57014",  # cancelled, or its time was up
        "57P01",  # shut down by an administrator, by a crash, starting up …
        "57P02",
        "57P03",
        "57P05",
        "70100",
        "HYT00",
        "HYT01",
    }
)

_MYSQL_STATES: Final = {
    1020: "40001",  # the row changed since it was read
    1021: "53100",
    1030: "58030",  # of the storage engine, such as a full disk
    1036: "25006",  # the table is read only
    1037: "53200",
    1038: "53200",
    1040: "08004",  # too many connections
    1041: "53200",
    1042: "08S01",
    1043: "08S01",
    1047: "08S01",  # a node of a cluster that is not ready
    1053: "08S01",  # shutting down
    1077: "08S01",
    1079: "08S01",
    1080: "08S01",
    1114: "53100",
    1152: "08S01",
    1158: "08S01",
    1159: "08S01",
    1160: "08S01",
    1161: "08S01",
    1180: "40000",
    1184: "08S01",
    1203: "53300",
    1205: "HYT00",  # the lock was not to be had in time
    1206: "53200",
    1213: "40001",
    1226: "53300",
    1290: "25006",
    1317: "57014",
    1412: "40001",  # the table was changed since the transaction began
    1614: "40000",
    1637: "53300",
    1792: "25006",
    1836: "25006",
    1927: "70100",  # killed
    1969: "57014",
    2002: "08001",
    2003: "08001",
    2005: "08001",
    2006: "08S01",
    2013: "08S01",
    2014: "08S01",
    2055: "08S01",
    3024: "57014",
    3101: "40000",
    4031: "08S01",
    # Faults of the table itself, or of a view or trigger on it: no record is to blame.
    1034: "XX001",
    1194: "XX001",
    1195: "XX001",
    1356: "42000",
    1449: "42000",
    1812: "XX001",
    1814: "XX001",
    1932: "XX001",
    # Faults of data or statement, for dead letters.
    1022: "23000",
    1044: "42000",
    1045: "28000",
    1048: "23000",
    1049: "3D000",
    1054: "42S22",
    1062: "23000",
    1064: "42000",
    1142: "42000",
    1143: "42000",
    1146: "42S02",
    1169: "23000",
    1216: "23000",
    1227: "42000",
    1217: "23000",
    1264: "22003",
    1288: "55000",  # a view that takes no rows
    1348: "55000",
    1370: "42000",
    1471: "55000",
    1265: "01000",
    1292: "22007",
    1366: "22007",
    1364: "HY000",
    1406: "22001",
    1451: "23000",
    1452: "23000",
    3819: "23000",
    4025: "23000",
}

_SQLITE_STATES: Final = {
    "SQLITE_BUSY": "55P03",
    "SQLITE_LOCKED": "55P03",
    "SQLITE_PROTOCOL": "55P03",
    "SQLITE_SCHEMA": "40001",
    "SQLITE_INTERRUPT": "57014",
    "SQLITE_NOMEM": "53200",
    "SQLITE_FULL": "53100",
    "SQLITE_IOERR": "58030",
    "SQLITE_CANTOPEN": "58030",
    "SQLITE_CONSTRAINT": "23000",
    "SQLITE_MISMATCH": "22000",
    "SQLITE_TOOBIG": "22001",
    "SQLITE_AUTH": "42501",  # a statement that is not allowed, no login
    "SQLITE_READONLY": "42501",
    "SQLITE_PERM": "42501",
    "SQLITE_NOTADB": "58030",
    "SQLITE_CORRUPT": "XX001",
}

_SQLITE_DRIVER: Final = "org.sqlite.JDBC"
_JVM_STATES: Final[Mapping[str, Mapping[int, str]]] = {
    "org.mariadb.jdbc.Driver": _MYSQL_STATES,
    _SQLITE_DRIVER: {getattr(sqlite3, name): state for name, state in _SQLITE_STATES.items()},
}
"""By the driver's class, since numbers of other drivers mean other errors."""
_SQLITE_GONE: Final = {"no such table": "42S02", "no such column": "42S22"}

_REFUSALS: Final = {
    re.compile(r"authentication failed|no password supplied|pg_hba\.conf|role .* does not exist"): "28000",
    re.compile(r"database .* does not exist"): "3D000",
}


def sql_state(error: BaseException) -> str:
    """The SQLSTATE of an error, five characters; `HY000`, the general error, if it has none."""
    if isinstance(error, (DisconnectionError, PoolTimeoutError)):
        return "08003"
    original: Any = getattr(error, "orig", None) or error
    if name := getattr(original, "sqlite_errorname", None):
        return _SQLITE_STATES.get("_".join(str(name).split("_")[:2]), "HY000")
    code = error_code(error)
    if code in _MYSQL_STATES:
        return _MYSQL_STATES[code]
    if given := getattr(original, "sqlstate", None):
        return str(given)
    if code:
        return "HY000"
    if getattr(error, "connection_invalidated", False) or _lost(original):
        return _refused(original) or "08006"
    return "HY000"


def jvm_state(driver: str, state: str, code: int, text: str) -> str:
    """The SQLSTATE of an error of the JVM's driver of this class; empty if neither state nor code says."""
    states = _JVM_STATES.get(driver, {})
    if driver == _SQLITE_DRIVER:
        gone = (state for said, state in _SQLITE_GONE.items() if said in text)
        return states.get(code & 0xFF) or next(gone, "HY000")
    return states.get(code, state)


def error_code(error: BaseException) -> int:
    """The database's own error number; 0 if it has none, as in PostgreSQL."""
    original: Any = getattr(error, "orig", None) or error
    if (code := getattr(original, "sqlite_errorcode", None)) is not None:
        return int(code)
    first = original.args[0] if original.args else None
    return first if isinstance(first, int) else 0


def source_function(error: BaseException) -> str:
    """PostgreSQL's function that raised the error; empty for other databases."""
    original: Any = getattr(error, "orig", None) or error
    return getattr(getattr(original, "diag", None), "source_function", None) or ""


def is_retriable_state(state: str) -> bool:
    """True if an error with this SQLSTATE is retriable."""
    return state[:2] in _RETRIABLE_CLASSES or state in _RETRIABLE_STATES


def is_retriable(error: BaseException) -> bool:
    """True if the error is retriable."""
    return isinstance(error, (ConnectionError, TimeoutError)) or is_retriable_state(sql_state(error))


def message(error: BaseException) -> str:
    """The database's message in one line with its code, without the statement and its bound values."""
    original: Any = getattr(error, "orig", None) or error
    texts = [arg for arg in original.args if isinstance(arg, str)] if isinstance(error, DBAPIError) else [str(original)]
    diagnosis = getattr(original, "diag", None)
    said = getattr(diagnosis, "message_primary", None) or " ".join(" ".join(texts).split())
    detail, hint = (getattr(diagnosis, f"message_{part}", None) for part in ("detail", "hint"))
    if notes := getattr(original, "__notes__", None):
        said = f"{', '.join(notes)}: {said}"
    code = error_code(error)
    where = f"SQLSTATE {sql_state(error)}" + (f", code {code}" if code else "")
    more = f"{f' ({detail})' if detail else ''}{f'; hint: {hint}' if hint else ''}"
    return f"{said or type(original).__name__}{more} [{where}]"


def _refused(original: Any) -> str | None:
    """The SQLSTATE of a connection that libpq could not open: psycopg has only its text, in the server's language."""
    text = str(original)
    return next((state for pattern, state in _REFUSALS.items() if pattern.search(text)), None)


def _lost(original: Any) -> bool:
    """True if a psycopg error without SQLSTATE says that there is no connection."""
    return type(original).__name__ in ("OperationalError", "ConnectionTimeout", "InterfaceError")
