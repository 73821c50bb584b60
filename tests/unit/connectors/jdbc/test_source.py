"""What the JDBC source does between its tasks."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headrace.connectors.jdbc.connection import DatabaseAway, DatabaseError
from headrace.connectors.jdbc.source import JdbcSourceConnector
from headrace.connectors.jdbc.source_tables import SourceError
from headrace.connectors.jdbc.tables import TableId


class Watched(JdbcSourceConnector):
    """Which finds what it is told to."""

    def __init__(self, *finds: Any) -> None:
        super().__init__()
        self.finds = list(finds)
        self.failed: list[Exception] = []
        self.reconfigured = 0
        self._tables = []

    def watch(self) -> None:
        self.ended = threading.Event()
        context: Any = self
        self._look_again(0.001, context, self.ended)

    def fail(self, error: Exception) -> None:
        self.failed.append(error)

    def reconfigure(self) -> None:
        self.reconfigured += 1
        self.ended.set()

    def _found(self, stopping: threading.Event) -> list[TableId]:
        found = self.finds.pop(0)
        if isinstance(found, Exception):
            raise found
        return list(found)


@pytest.mark.parametrize("error", [DatabaseAway("gone"), DatabaseError("permission denied")])
def test_looking_for_tables_goes_on_after_an_error_of_the_database(error: Exception) -> None:
    connector = Watched(error, [], [TableId(None, None, "new")])
    connector.watch()
    assert (connector.failed, connector.reconfigured, connector.finds) == ([], 1, [])


def test_what_no_later_look_can_mend_fails_the_connector() -> None:
    error = SourceError("two tables of one name")
    connector = Watched(error)
    connector.watch()
    assert connector.failed == [error]
