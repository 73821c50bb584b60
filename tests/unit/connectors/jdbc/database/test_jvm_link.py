"""Errors of the JVM's driver, and their meaning to the task."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.connectors.jdbc.contract.dialect import JvmDriver
from headrace.connectors.jdbc.database.jvm_link import JvmAccess, JvmLink, JvmReadError, classified
from headrace.plugins import scratch
from headrace.plugins.contracts import LoginRefused, RetriableError

MARIADB, SQLITE, OTHER = "org.mariadb.jdbc.Driver", "org.sqlite.JDBC", "oracle.jdbc.OracleDriver"


class JavaError(Exception):
    """An SQLException among the causes of what Spark raises."""

    def __init__(self, state: str | None, code: int, text: str) -> None:
        known = SimpleNamespace(getName=lambda: "java.sql.SQLException")
        self._origin: Any = SimpleNamespace(
            getClass=lambda: known, getSQLState=lambda: state, getErrorCode=lambda: code, getMessage=lambda: text
        )


@pytest.mark.parametrize(
    ("driver", "error", "passes", "where"),
    [
        (MARIADB, JavaError("HY000", 1205, "Lock wait timeout exceeded"), True, "SQLSTATE HYT00, code 1205"),
        (MARIADB, JavaError("HY000", 1290, "running with --read-only"), True, "SQLSTATE 25006, code 1290"),
        (MARIADB, JavaError("42S02", 1146, "no such table"), True, "SQLSTATE 42S02, code 1146"),
        (MARIADB, JavaError("22003", 1690, "out of range"), False, "SQLSTATE 22003, code 1690"),
        (MARIADB, JavaError("08000", -1, "Socket error"), True, "SQLSTATE 08000, code -1"),
        (SQLITE, JavaError(None, 5, "[SQLITE_BUSY] locked"), True, "SQLSTATE 55P03, code 5"),
        (SQLITE, JavaError(None, 1, "[SQLITE_ERROR] (no such table: a)"), True, "SQLSTATE 42S02, code 1"),
        (SQLITE, JavaError(None, 1, "[SQLITE_ERROR] (integer overflow)"), False, "SQLSTATE HY000, code 1"),
        (OTHER, JavaError("72000", 1205, "something else"), False, "SQLSTATE 72000, code 1205"),
        (OTHER, JavaError(None, 17002, "IO Error"), True, "SQLSTATE unknown, code 17002"),
    ],
    ids=lambda value: value._origin.getMessage() if isinstance(value, JavaError) else "",
)
def test_codes_count_where_states_are_too_general(driver: str, error: JavaError, passes: bool, where: str) -> None:
    found = classified(error, JvmAccess(JvmDriver(driver, "jdbc:x:y", {}), "jdbc:x:y", about="jdbc:x:y as user u"))
    assert isinstance(found, RetriableError if passes else JvmReadError)
    assert str(found) == f"jdbc:x:y as user u: {error._origin.getMessage()} [{where}]"


def test_a_refused_login_may_be_mended_by_a_new_start() -> None:
    access = JvmAccess(JvmDriver(MARIADB, "jdbc:x:y", {}), "jdbc:x:y", about="jdbc:x:y as user u")
    found = classified(JavaError("28000", 1045, "Access denied"), access)
    assert isinstance(found, JvmReadError)
    assert isinstance(found, LoginRefused)


def test_its_folder_is_not_in_a_small_shared_memory_and_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_LEAST_MEMORY_BYTES", 1 << 62)
    link = JvmLink(JvmAccess(JvmDriver(MARIADB, "jdbc:x:y", {}), "jdbc:x:y"))
    assert [folder.name.startswith("headrace-held-jdbc-") for folder in tmp_path.iterdir()] == [True]
    link.close()
