"""The setting `query.suffix`, and the beginning of time, on a real PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.connectors.jdbc.database.jvm_link import AlteredError, JvmReadError
from headrace.worker.engine.driver import Spark
from tests.integration.databases import Database
from tests.integration.sourcing import Sourcing

pytestmark = [pytest.mark.database, pytest.mark.spark]

TABLE = {"table.whitelist": "events"}
QUERY = {"query": "SELECT id, note FROM events WHERE note <> 'hidden'"}


@pytest.fixture
def events(engine: Spark, postgresql: Database) -> Database:
    postgresql.execute(
        "CREATE TABLE events (id integer NOT NULL PRIMARY KEY, note text)",
        "INSERT INTO events VALUES (3, 'c'), (1, 'a'), (2, 'b')",
    )
    return postgresql


@pytest.mark.parametrize("what", [TABLE, QUERY], ids=["table", "query"])
@pytest.mark.parametrize(
    ("suffix", "found"), [("WHERE id <= 2 ORDER BY id", [1, 2]), ("ORDER BY id DESC", [3, 2, 1]), ("LIMIT 0", [])]
)
def test_a_suffix_of_a_bulk_read_sees_the_columns_by_their_names(
    events: Database, open_sources: list[Sourcing], what: dict[str, str], suffix: str, found: list[int]
) -> None:
    source = Sourcing(events, mode="bulk", **what, **{"query.suffix": suffix})
    open_sources.append(source)
    rows: list[dict[str, Any]] = source.poll()
    assert [row["id"] for row in rows] == found


@pytest.mark.parametrize("name", ["events", "public.events"])
def test_a_suffix_of_a_bulk_read_may_name_the_table(events: Database, open_sources: list[Sourcing], name: str) -> None:
    suffix = f"WHERE {name}.id <= 2 ORDER BY {name}.id"
    source = Sourcing(events, mode="bulk", **TABLE, **{"query.suffix": suffix})
    open_sources.append(source)
    assert [row["id"] for row in source.poll()] == [1, 2]


def test_a_suffix_that_the_database_refuses_fails_the_task(events: Database, open_sources: list[Sourcing]) -> None:
    source = Sourcing(events, mode="bulk", **TABLE, **{"query.suffix": "WHERE nothing_such = 1"})
    open_sources.append(source)
    for _ in range(2):
        with pytest.raises(AlteredError, match="nothing_such"):
            source.poll()
    with pytest.raises(JvmReadError, match="nothing_such"):
        source.poll()


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
def test_rows_after_the_epoch_are_read_whatever_the_clock_shows(
    engine: Spark, postgresql: Database, open_sources: list[Sourcing], mode: str
) -> None:
    postgresql.execute(
        "CREATE TABLE events (id integer NOT NULL PRIMARY KEY, at timestamp NOT NULL)",
        "INSERT INTO events VALUES (1, '1969-12-31 16:00:00.001'), (2, '1969-12-31 23:00:00'), (3, '1970-01-02 00:00')",
    )
    settings = {"timestamp.column.name": "at", "db.timezone": "America/Los_Angeles"}
    source = Sourcing(postgresql, mode=mode, **settings, **TABLE, **{"incrementing.column.name": "id"})
    open_sources.append(source)
    assert [row["id"] for row in source.poll()] == [1, 2, 3]
    assert source.plan() is None
