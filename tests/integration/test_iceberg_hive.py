"""Iceberg's tables in Hive's metastore by a real worker: changes, rows that are read back, a metastore that hangs."""

from __future__ import annotations

import getpass
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.hive_server import HiveServer
from tests.integration.iceberg_pipe import Pipe
from tests.integration.iceberg_rest_server import IcebergRestServer
from tests.integration.iceberg_tables import LakeTable
from tests.integration.worker_process import Topic, WorkerProcess, connector_file, eventually
from tests.tcp_proxy import TcpProxy

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

WITHIN_S: Final = 180
SOAK_S: Final = 600
SOON_S: Final = 60
"""An answer that waits for no metastore, of a busy machine; this worker gives up a task after 30 s."""
HOUSEKEEPING: Final = {
    "hive.compactor.initiator.on": "true",
    "hive.support.concurrency": "true",
    "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
    "hive.txn.timeout": "15s",
    "hive.timedout.txn.reaper.start": "1s",
    "hive.timedout.txn.reaper.interval": "1s",
}
"""Settings of a metastore that ends the locks of dead writers, and soon."""
_ROW: Final = [{"field": "id", "type": "int64", "optional": False}, {"field": "item", "type": "string"}]
_CHANGE: Final = [
    {"field": "before", "type": "struct", "optional": True, "fields": _ROW},
    {"field": "after", "type": "struct", "optional": True, "fields": _ROW},
    {"field": "op", "type": "string"},
]
_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"


def key(number: int) -> bytes:
    return json.dumps({"schema": {"type": "struct", "fields": _ROW[:1]}, "payload": {"id": number}}).encode()


def change(op: str, number: int, item: str) -> bytes:
    """Debezium's envelope."""
    row, names = {"id": number, "item": item}, ("after", "before") if op != "d" else ("before", "after")
    schema = {"type": "struct", "name": "shop.orders.Envelope", "fields": _CHANGE}
    return json.dumps({"schema": schema, "payload": {names[0]: row, names[1]: None, "op": op}}).encode()


@pytest.fixture
def topic(worker: WorkerProcess, broker: str) -> Iterator[Topic]:
    """A topic; connectors named after it are deleted."""
    made = Topic(broker, "hive-lake")
    yield made
    for name in worker.get("/connectors"):
        if made.name in name:
            worker.request("DELETE", f"/connectors/{name}")


def sink(topic: Topic, table: str, uri: str, folder: Path, **more: str) -> dict[str, str]:
    return {
        "connector.class": "IcebergSink",
        "topics": topic.name,
        "iceberg.tables": table,
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.control.commit.interval-ms": "200",
        "iceberg.catalog.type": "hive",
        "iceberg.catalog.uri": uri,
        "iceberg.catalog.warehouse": f"file://{folder}/lake",
        "key.converter": _JSON,
        "value.converter": _JSON,
        **more,
    }


def in_hive(uri: str, folder: Path) -> dict[str, str]:
    """A catalog's properties."""
    return {"type": "hive", "uri": uri, "warehouse": f"file://{folder}/lake"}


def row(number: int, item: str) -> bytes:
    """A row as it is."""
    payload = {"id": number, "item": item}
    return json.dumps({"schema": {"type": "struct", "fields": _ROW}, "payload": payload}).encode()


def wait_rows(worker: WorkerProcess, table: LakeTable, expected: list[tuple[int, str]]) -> None:
    """Wait until Iceberg's own reader finds just these rows."""
    found: list[Any] = []

    def has_them() -> bool:
        try:
            found[:] = [(one["id"], one["item"]) for one in table.rows("id")]
        except LookupError as error:
            found[:] = [str(error)]
        return found == expected

    eventually(has_them, WITHIN_S, lambda: f"{found}; {worker.log()[-3000:]}", every_s=1)


def test_changes_are_folded_by_their_keys(
    worker: WorkerProcess, topic: Topic, hive_server: HiveServer, iceberg_rest: IcebergRestServer, tmp_path: Path
) -> None:
    catalog = in_hive(hive_server.uris, tmp_path)
    folded = LakeTable(iceberg_rest, catalog, f"db_{topic.name.replace('-', '_')}.folded")
    upserts = {
        "iceberg.tables.upsert-mode-enabled": "true",
        "iceberg.tables.default-id-columns": "id",
        "iceberg.tables.default-partition-by": "bucket(id, 2)",
    }
    topic.send([change("r", 1, "a"), change("c", 2, "b"), change("u", 1, "c")], keys=[key(1), key(2), key(1)])
    worker.create(f"folded-{topic.name}", **sink(topic, folded.name, hive_server.uris, tmp_path, **upserts))
    wait_rows(worker, folded, [(1, "c"), (2, "b")])
    topic.send([change("d", 2, "b"), None, change("c", 3, "d")], keys=[key(2), key(2), key(3)])
    wait_rows(worker, folded, [(1, "c"), (3, "d")])


def test_appended_rows_are_read_back_by_a_source(
    worker: WorkerProcess, topic: Topic, hive_server: HiveServer, tmp_path: Path
) -> None:
    table, back = f"db_{topic.name.replace('-', '_')}.rows", Topic(topic.bootstrap, "hive-back")
    config = sink(topic, table, hive_server.uris, tmp_path)
    worker.create(f"rows-{topic.name}", **config)
    catalog = {name: value for name, value in config.items() if name.startswith("iceberg.catalog.")}
    source = {
        "connector.class": "IcebergSource",
        "iceberg.tables": table,
        "topic": back.name,
        "poll.interval.ms": "200",
    }
    plain = {"value.converter": _JSON, "value.converter.schemas.enable": "false"}
    topic.send([row(number, "a") for number in range(3)])
    eventually(lambda: f"Table {table} is made" in worker.log(), WITHIN_S, worker.log)
    worker.create(f"back-{topic.name}", **source, **catalog, **plain)

    def wait_items(count: int) -> None:
        def values() -> list[int]:
            return [json.loads(one)["id"] for one in back.values()]

        eventually(lambda: values() == list(range(count)), WITHIN_S, lambda: f"{values()}; {worker.log()[-3000:]}")

    wait_items(3)
    topic.send([row(3, "b")])
    wait_items(4)


def test_a_metastore_that_hangs_holds_up_nobody_but_its_sink(
    worker: WorkerProcess, topic: Topic, tmp_path: Path
) -> None:
    name = f"blocked-{topic.name}"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(WITHIN_S)
        config = sink(topic, "db.t", f"thrift://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
        topic.send([row(1, "a")])
        worker.create(name, **config)
        connection, _ = silent.accept()
        with connection:
            for method, path, body in (
                ("PUT", "/connector-plugins/IcebergSink/config/validate", {**config, "name": name}),
                ("GET", f"/connectors/{name}/status", None),
                ("PUT", f"/connectors/{name}/pause", None),
                ("PUT", f"/connectors/{name}/resume", None),
                ("POST", f"/connectors/{name}/restart?includeTasks=true", None),
                ("PUT", f"/connectors/{name}/stop", None),
                ("DELETE", f"/connectors/{name}", None),
            ):
                began = time.monotonic()
                worker.request(method, path, body)
                assert time.monotonic() - began < SOON_S, path
        eventually(lambda: name not in worker.get("/connectors"), SOON_S)


@pytest.mark.soak
def test_a_task_that_waits_for_a_lock_ends_in_time(
    worker: WorkerProcess, broker: str, hive_server: HiveServer, iceberg_rest: IcebergRestServer, tmp_path: Path
) -> None:
    """Also if its partitions are to move meanwhile; the next owner writes each record once.

    Its end takes all of `task.shutdown.graceful.timeout.ms`, which is long here.
    """
    pipe = Pipe(broker, iceberg_rest, in_hive(hive_server.uris, tmp_path))
    pipe.config["iceberg.hadoop.iceberg.hive.lock-timeout-ms"] = str(100_000)  # longer than SOON_S
    name, said = f"waits-{pipe.topic.name}", len(worker.log())

    def shown() -> str:
        return f"{pipe.table.locks()}; {worker.log()[said:]}"

    pipe.send(10)
    worker.create(name, **pipe.config)
    eventually(pipe.is_complete, WITHIN_S, worker.log, 0.5)
    pipe.table.lock()
    pipe.send(10)
    eventually(lambda: len(pipe.table.locks()) == 2, WITHIN_S, shown)
    worker.request("POST", f"/connectors/{name}/tasks/1/restart")
    eventually(lambda: len(pipe.table.locks()) == 2, WITHIN_S, shown)
    worker.request("PUT", f"/connectors/{name}/stop")
    eventually(lambda: pipe.table.locks() == [["ACQUIRED", "somebody"]], SOON_S, shown)
    worker.request("PUT", f"/connectors/{name}/config", {**pipe.config, "tasks.max": "1"})
    worker.request("PUT", f"/connectors/{name}/resume")
    pipe.send(10)
    eventually(lambda: len(pipe.table.locks()) == 2, WITHIN_S, shown)
    pipe.table.unlock()
    eventually(pipe.is_complete, WITHIN_S, shown, 0.5)
    pipe.send(1)  # what was broken off is removed after the first commit
    eventually(pipe.is_complete, WITHIN_S, shown, 0.5)
    worker.request("DELETE", f"/connectors/{name}")
    eventually(lambda: not pipe.table.locks(), WITHIN_S, shown)
    pipe.check()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_the_lock_of_a_killed_worker_ends(broker: str, iceberg_rest: IcebergRestServer, tmp_path: Path) -> None:
    """The metastore ends it, as soon as its housekeeping is on; until then the next worker says so."""
    metastore = HiveServer(tmp_path / "hive")
    metastore.configure({"hive.txn.timeout": "5s"})
    metastore.start()
    try:
        with TcpProxy(metastore.port) as link:
            catalog = in_hive(f"thrift://127.0.0.1:{link.port}", tmp_path)
            pipe = Pipe(broker, iceberg_rest, catalog)
            pipe.config["iceberg.hadoop.iceberg.hive.lock-timeout-ms"] = "1000"
            pipe.send(10)
            file = connector_file(tmp_path, "sink", **pipe.config)
            with WorkerProcess(tmp_path / "worker", broker, [file]) as worker:
                eventually(pipe.is_complete, SOAK_S, worker.log, 0.5)
                link.hold(b"alter_table")
                pipe.send(10)
                eventually(lambda: link.held, SOAK_S, worker.log)
                worker.kill_family()
                assert pipe.table.locks() == [["ACQUIRED", getpass.getuser()]]
                link.hold(None)
                said = len(worker.log())
                worker.start()
                advice = r"lock \d+ of .* on .*, last heard of at .*hive\.compactor\.initiator\.on=true.*DbTxn"
                # Each has waited for a second, so that the timeout is over.
                eventually(lambda: len(re.findall(advice, worker.log()[said:])) > 12, SOAK_S, worker.log)
                worker.wait_states("sink", "RUNNING", "RUNNING")
                assert pipe.table.locks()[0] == ["ACQUIRED", getpass.getuser()], "nothing has ended it"
                metastore.kill()
                metastore.configure(HOUSEKEEPING)
                metastore.start()
                eventually(pipe.is_complete, SOAK_S, worker.log, 0.5)
                pipe.send(1)
                eventually(pipe.is_complete, SOAK_S, worker.log, 0.5)
                assert worker.stop() == 0
            pipe.check()
    finally:
        metastore.kill()
