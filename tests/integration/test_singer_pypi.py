"""Taps and targets of PyPI as they are published: installed by one command, and run over a kill of the worker."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.integration.databases import Database
from tests.integration.worker_process import WorkerProcess, eventually

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.soak, pytest.mark.timeout(1800)]

WITHIN_S = 240.0
COUNT = 500
Config = dict[str, str]


class Pipe:
    """A worker with a tap and a target, each installed in an environment of its own."""

    def __init__(self, folder: Path, broker: str) -> None:
        self.folder = folder
        self.path = folder / "plugins"
        self.prefix = f"pypi-{uuid.uuid4().hex[:8]}-"
        settings = {
            "plugin.path": str(self.path),
            "offset.flush.interval.ms": "5000",
            "task.shutdown.graceful.timeout.ms": "30000",
        }
        self.worker = WorkerProcess(folder / "worker", broker, settings=settings)
        self.configs: dict[str, Config] = {}

    def install(self, requirement: str) -> str:
        """Install it; return its name."""
        command = [str(Path(sys.executable).with_name("headrace")), "plugins", "install", requirement]
        done = subprocess.run([*command, "--plugin-path", str(self.path)], capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        return requirement.partition("==")[0]

    def tap(self, requirement: str, config: dict[str, Any], **settings: str) -> None:
        """The source with this tap."""
        own = {f"tap.config.{name}": _text(value) for name, value in config.items()}
        self.configs["tap"] = {
            "connector.class": "SingerSource",
            "tap.command": self.install(requirement),
            "topic.prefix": self.prefix,
            "sync.interval.ms": "2000",
            **settings,
            **own,
        }

    def target(self, requirement: str, config: dict[str, Any], stream: str) -> None:
        """The sink with this target."""
        own = {f"target.config.{name}": _text(value) for name, value in config.items()}
        self.configs["target"] = {
            "connector.class": "SingerSink",
            "target.command": self.install(requirement),
            "topics": self.prefix + stream,
            "consumer.override.session.timeout.ms": "6000",  # what a killed worker had is given to the next one soon
            **own,
        }

    def run(self, stored: Callable[[], set[int]], more: Callable[[], None], count: int) -> None:
        """Everything is stored at the end, over a kill of the worker and what comes by `more` after it."""
        with self.worker as worker:
            self._start()
            eventually(lambda: len(stored()) > 0, WITHIN_S, worker.log)
            worker.kill()
            worker.kill_family()
            more()
            worker.start()
            self._start()
            eventually(lambda: stored() == set(range(count)), WITHIN_S, lambda: f"{len(stored())} {worker.log()}")
            assert [worker.states(name) for name in self.configs] == [["RUNNING"]] * 2

    def _start(self) -> None:
        self.worker.wait_ready()
        for name, config in self.configs.items():
            self.worker.request("PUT", f"/connectors/{name}/config", config)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


@pytest.fixture
def pipe(tmp_path: Path, broker: str) -> Pipe:
    return Pipe(tmp_path, broker)


def test_postgresql_into_duckdb(pipe: Pipe, postgresql: Database) -> None:
    table, url = "orders", postgresql.engine.url

    def insert(numbers: range) -> None:
        rows = ", ".join(f"({n}, 'row {n}', {n}.25)" for n in numbers)
        postgresql.execute(f"INSERT INTO {table} VALUES {rows}")

    postgresql.execute(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, name TEXT NOT NULL, price NUMERIC(10, 2))")
    insert(range(COUNT))
    metadata = {"public-orders": {"replication-method": "INCREMENTAL", "replication-key": "id"}}
    pipe.tap(
        "meltanolabs-tap-postgres==0.10.0",
        {
            "host": str(url.host),
            "port": url.port,
            "user": str(url.username),
            "password": str(url.password or "x"),
            "database": str(url.database),
        },
        **{"tap.metadata": json.dumps(metadata), "streams": "public-orders"},
    )
    stream, file = "public-orders", pipe.folder / "out.duckdb"
    pipe.target("target-duckdb==0.8.0", {"filepath": str(file), "default_target_schema": "main"}, stream)
    python = pipe.path / "target-duckdb/env/bin/python"
    query = (
        "import duckdb, json, sys\n"
        "with duckdb.connect(sys.argv[1], read_only=True) as db:\n"
        '    (table,), = db.execute("SELECT table_name FROM information_schema.tables").fetchall()\n'
        "    print(json.dumps(db.execute(f'SELECT id, name, price FROM \"{table}\"').fetchall(), default=str))\n"
    )

    def stored() -> set[int]:
        if not file.exists():
            return set()
        copy = pipe.folder / "copy.duckdb"  # the target could not write to a file that is open
        shutil.copyfile(file, copy)
        done = subprocess.run([python, "-c", query, str(copy)], capture_output=True, text=True, timeout=60)
        if done.returncode:  # it was being written
            return set()
        rows = json.loads(done.stdout)
        assert all((name, float(price)) == (f"row {n}", n + 0.25) for n, name, price in rows)
        assert len(rows) == len({n for n, _, _ in rows})
        return {n for n, _, _ in rows}

    pipe.run(stored, lambda: insert(range(COUNT, COUNT + 100)), COUNT + 100)


def test_a_folder_of_csv_into_lines_of_json(pipe: Pipe) -> None:
    folder, out = pipe.folder / "csv", pipe.folder / "out"
    folder.mkdir()
    out.mkdir()

    def write(name: str, numbers: range) -> None:
        lines = [f"{n},row {n}\n" for n in numbers]
        (folder / name).write_text("".join(["id,name\n", *lines]))

    write("one.csv", range(COUNT))
    config = {"filesystem": "local", "path": str(folder), "stream_name": "people", "read_mode": "merge"}
    # It discovers a catalog, and fails if it is given one.
    pipe.tap("tap-csv-folder==0.0.1a1", {**config, "delimiter": ","}, **{"tap.catalog": "none"})
    pipe.target("target-jsonl==0.1.4", {"destination_path": str(out)}, "people")

    def stored() -> set[int]:
        lines = [line for file in out.glob("*.jsonl") for line in file.read_text().splitlines(keepends=True)]
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        assert all(one["name"] == f"row {one['id']}" for one in found)
        return {int(one["id"]) for one in found}

    pipe.run(stored, lambda: write("two.csv", range(COUNT, COUNT + 100)), COUNT + 100)


class _Shop(BaseHTTPRequestHandler):
    """A service that gives pages of orders: `/orders?offset=20&limit=10`."""

    count = COUNT

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        offset, limit = (int(query.get(name, [default])[0]) for name, default in (("offset", "0"), ("limit", "50")))
        rows = [
            {"id": n, "name": f"row {n}", "tags": ["a", "b"], "address": {"street": "x", "no": n}}
            for n in range(offset, min(offset + limit, self.count))
        ]
        body = json.dumps({"orders": rows, "pagination": {"total": self.count, "offset": offset, "limit": limit}})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def shop() -> Iterator[str]:
    _Shop.count = COUNT
    with ThreadingHTTPServer(("127.0.0.1", 0), _Shop) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_rest_service_into_csv(pipe: Pipe, shop: str) -> None:
    out = pipe.folder / "out"
    out.mkdir()
    stream = {
        "name": "orders",
        "path": "/orders",
        "primary_keys": ["id"],
        "records_path": "$.orders[*]",
        "num_inference_records": 20,
    }
    pagination = {
        "pagination_request_style": "offset_paginator",
        "pagination_response_style": "offset",
        "pagination_limit_per_page_param": "limit",
        "pagination_page_size": 50,
        "pagination_initial_offset": 0,
    }
    pipe.tap("tap-rest-api-msdk==1.4.2", {"api_url": shop, "streams": [stream], **pagination})
    pipe.target(
        "meltanolabs-target-csv==0.5.0", {"output_path": str(out), "overwrite_behavior": "append_records"}, "orders"
    )

    def stored() -> set[int]:
        found = [row for file in out.glob("*.csv") for row in csv.DictReader(file.open(newline=""))]
        whole = [row for row in found if None not in row.values()]
        assert all(row["name"] == f"row {row['id']}" for row in whole)
        return {int(row["id"]) for row in whole}

    def more() -> None:
        _Shop.count = COUNT + 100

    pipe.run(stored, more, COUNT + 100)


def test_files_of_messages_into_lines_of_json(pipe: Pipe) -> None:
    folder, out = pipe.folder / "in", pipe.folder / "out"
    folder.mkdir()
    out.mkdir()

    def write(name: str, numbers: range) -> None:
        schema = {"type": "object", "properties": {"id": {"type": "integer"}, "odd": {}}}
        messages = [{"type": "SCHEMA", "stream": "numbers", "schema": schema, "key_properties": ["id"]}]
        messages += [{"type": "RECORD", "stream": "numbers", "record": {"id": n, "odd": [n % 2]}} for n in numbers]
        (folder / name).write_text("".join(f"{json.dumps(one)}\n" for one in messages))

    write("a.singer", range(COUNT))
    config = {"source": "local", "local": {"folders": [str(folder)], "recursive": False}}
    pipe.tap("tap-singer-jsonl==0.1.0", config)
    pipe.target("target-jsonl==0.1.4", {"destination_path": str(out)}, "numbers")

    def stored() -> set[int]:
        lines = [line for file in out.glob("*.jsonl") for line in file.read_text().splitlines(keepends=True)]
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        assert all(one["odd"] == f"[{one['id'] % 2}]" for one in found)
        return {one["id"] for one in found}

    pipe.run(stored, lambda: write("b.singer", range(COUNT, COUNT + 100)), COUNT + 100)
