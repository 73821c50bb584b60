"""The JDBC source in a worker: tables into topics."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import psutil
import pytest

from tests.integration.databases import Database
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = [pytest.mark.database, pytest.mark.spark]

log = logging.getLogger(__name__)

COUNTED = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
    "mode": "incrementing",
    "poll.interval.ms": "50",
}
ONE = {**COUNTED, "incrementing.column.name": "id"}
LONG = "1234567890" * 4 + "1"
ALL = {**COUNTED, "table.include.list": ".*", "incrementing.column.mapping": ".*:id"}


def values(topic: Topic) -> list[Any]:
    return [json.loads(value)["payload"] for value in topic.values()]


def offsets(worker: WorkerProcess, name: str) -> Any:
    return {one["partition"]["table"]: one["offset"] for one in worker.offsets(name)}


def test_a_large_first_load_is_a_job_and_what_follows_is_not(
    worker: WorkerProcess, broker: str, postgresql: Database
) -> None:
    topic = Topic(broker, "large")
    name, many = topic.name, 120_000
    postgresql.execute(
        f'CREATE TABLE "{name}" (id integer PRIMARY KEY, price numeric(8,2), note text)',
        f"INSERT INTO \"{name}\" SELECT n, n / 100.0, 'note ' || n FROM generate_series(1, {many}) n",
    )
    worker.create(name, **ONE, **postgresql.settings, **{"table.whitelist": name})
    eventually(lambda: topic.end() >= many, 120, worker.log)
    assert sorted(value["id"] for value in values(topic)) == list(range(1, many + 1))
    eventually(lambda: offsets(worker, name) == {f"public.{name}": {"incrementing": many}}, 60)
    assert f"{name}-0: a job moved {many} rows" in worker.log()
    postgresql.execute(f"INSERT INTO \"{name}\" VALUES ({many + 1}, NULL, 'one more')")
    eventually(lambda: topic.end() == many + 1, 60, worker.log)
    last = json.loads(topic.values()[-1])
    assert last["payload"] == {"id": many + 1, "price": None, "note": "one more"}
    assert last["schema"]["name"] == name
    assert [field["field"] for field in last["schema"]["fields"]] == ["id", "price", "note"]
    assert worker.log().count(f"{name}-0: a job moved") == 1
    worker.request("DELETE", f"/connectors/{name}")


def test_tables_that_come_later_are_read_and_offsets_can_be_set(
    worker: WorkerProcess, broker: str, database: Database
) -> None:
    first, second = Topic(broker, "first"), Topic(broker, "second")
    mark = "`" if database.kind == "mariadb" else '"'
    one, other = (f"{mark}{topic.name}{mark}" for topic in (first, second))
    database.execute(f"CREATE TABLE {one} (id integer PRIMARY KEY NOT NULL)", f"INSERT INTO {one} VALUES (1), (2)")
    name = first.name
    worker.create(name, **ALL, **database.settings, **{"table.poll.interval.ms": "200", "tasks.max": "2"})
    worker.wait_states(name, "RUNNING")
    eventually(lambda: values(first) == [{"id": 1}, {"id": 2}], 60, worker.log)
    database.execute(f"CREATE TABLE {other} (id integer PRIMARY KEY NOT NULL)", f"INSERT INTO {other} VALUES (7)")
    worker.wait_states(name, "RUNNING", "RUNNING")
    eventually(lambda: values(second) == [{"id": 7}], 60, worker.log)
    assert len(values(first)) == 2
    stored = eventually(lambda: len(found := worker.offsets(name)) == 2 and found, 60)
    worker.request("PUT", f"/connectors/{name}/stop")
    eventually(lambda: worker.get(f"/connectors/{name}/status")["connector"]["state"] == "STOPPED", 60)
    back = [{**each, "offset": {"incrementing": 1}} for each in stored if name in each["partition"]["table"]]
    worker.request("PATCH", f"/connectors/{name}/offsets", {"offsets": back})
    worker.request("PUT", f"/connectors/{name}/resume")
    eventually(lambda: values(first) == [{"id": 1}, {"id": 2}, {"id": 2}], 60, worker.log)
    assert values(second) == [{"id": 7}]
    worker.request("DELETE", f"/connectors/{name}")


def test_a_row_that_cannot_be_carried_stops_the_task_or_is_left_out(
    worker: WorkerProcess, broker: str, postgresql: Database
) -> None:
    topic, letters = Topic(broker, "odd"), Topic(broker, "letters")
    name = topic.name
    tolerant = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters.name}
    postgresql.execute(
        f'CREATE TABLE "{name}" (id integer PRIMARY KEY, day date, n numeric)',
        f"INSERT INTO \"{name}\" VALUES (1, '2024-02-29', 1), (2, 'infinity', {LONG}), (3, '2024-03-01', 1)",
    )
    config = {**ONE, **postgresql.settings, "table.whitelist": name, "task.restart.max.attempts": "0"}
    worker.create(name, **config)
    worker.wait_states(name, "FAILED")
    assert "TASK_POLL" in worker.trace(name)
    assert f"Row id=2 of public.{name}: column day is infinite" in worker.trace(name)
    assert [value["id"] for value in values(topic)] == [1]
    worker.request("PUT", f"/connectors/{name}/config", {**config, **tolerant})
    eventually(lambda: [value["id"] for value in values(topic)] == [1, 3], 60, worker.log)
    assert [json.loads(letter) for letter in letters.values()] == [{"id": 2, "day": None, "n": LONG}]
    worker.request("DELETE", f"/connectors/{name}")


@pytest.mark.long
@pytest.mark.parametrize("filled", [40, pytest.param(1000, marks=pytest.mark.soak)])
def test_a_thousand_tables_in_one_connector(worker: WorkerProcess, broker: str, sqlite: Database, filled: int) -> None:
    """Each table with rows is a shape of its own to Spark, which takes a moment to be made ready."""
    topic, tables = Topic(broker, "thousand"), 1000
    name = topic.name
    with sqlite.engine.begin() as connection:
        for number in range(tables):
            connection.exec_driver_sql(f"CREATE TABLE t{number:04} (id INTEGER PRIMARY KEY NOT NULL, note TEXT)")
            if number < filled:
                connection.exec_driver_sql(f"INSERT INTO t{number:04} (note) VALUES ('one'), ('two')")
    into_one = {
        "transforms": "all",
        "transforms.all.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.all.regex": ".*",
        "transforms.all.replacement": name,
    }
    began = time.monotonic()
    worker.create(name, **{**ALL, "poll.interval.ms": "5000"}, **sqlite.settings, **into_one)
    worker.wait_states(name, "RUNNING")
    running = time.monotonic() - began
    assert running < 30
    eventually(lambda: topic.end() >= 2 * filled, 480, lambda: (topic.end(), worker.log()))
    log.warning("1,000 tables: RUNNING after %.1f s, all rows after %.1f s", running, time.monotonic() - began)
    eventually(lambda: len(worker.offsets(name)) == filled, 60)
    process = psutil.Process(worker.process.pid)
    before, at = sum(process.cpu_times()[:2]), time.monotonic()
    time.sleep(6)  # longer than from one poll to the next: the subject is what nothing costs
    share = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - at)
    log.warning("1,000 idle tables: %.1f %% of a core", 100 * share)
    assert share < 0.5
    worker.request("DELETE", f"/connectors/{name}")
