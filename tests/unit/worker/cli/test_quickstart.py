"""The quickstart's parts, without broker or worker."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from headrace.worker.cli import quickstart
from headrace.worker.cli.own_worker import OwnWorker, PipeFailed, WrongUse, home
from headrace.worker.cli.pipe_watch import PipeWatch
from headrace.worker.cli.quickstart import Options, check, properties
from headrace.worker.machine import processes


def test_the_settings_are_those_of_a_production_worker(tmp_path: Path) -> None:
    files = properties(tmp_path, "127.0.0.1:9", 8084, Path("/in"), Path("/out"))
    assert list(files) == ["worker.properties", "source.properties", "sink.properties"]
    worker, source, sink = files.values()
    assert worker["listeners"] == "http://127.0.0.1:8084"
    assert worker["bootstrap.servers"] == "127.0.0.1:9"
    assert Path(worker["offset.storage.file.filename"]).parent == tmp_path
    assert (source["connector.class"], source["file"]) == ("FileStreamSource", "/in")
    assert (sink["connector.class"], sink["file"]) == ("FileStreamSink", "/out")
    assert source["topic"] == sink["topics"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (Options(file=Path("/no/such"), once=True), "does not exist"),
        (Options(file=Path("/")), "is a folder"),
        (Options(keep=Path("/")), "not an empty folder"),
    ],
)
def test_wrong_use_is_refused_before_anything_starts(
    options: Options, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(WrongUse, match=told):
        check(options)
    assert quickstart.run(options) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err


def test_a_file_to_follow_may_come_later(tmp_path: Path) -> None:
    check(Options(file=tmp_path / "later"))


def test_the_folder_is_removed_unless_it_is_to_be_kept(tmp_path: Path) -> None:
    with home(None, "quickstart") as folder:
        (folder / "data").write_text("x")
    assert not folder.exists()
    with home(tmp_path / "kept", "quickstart") as folder:
        (folder / "data").write_text("x")
    assert (folder / "data").exists()


def test_a_worker_that_ended_by_itself_is_told_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = processes.spawn
    dies = [sys.executable, "-c", "print('wrong config'); raise SystemExit(2)"]
    monkeypatch.setattr(processes, "spawn", lambda command, **rest: spawn(dies, **rest))
    with OwnWorker(tmp_path, {"worker.properties": {"a": "b c"}}) as worker:
        assert worker._process is not None
        worker._process.wait(60)
        with pytest.raises(PipeFailed, match=r"(?s)code 2.*wrong config"):
            worker.check_alive()
    assert (tmp_path / "worker.properties").read_text() == "a=b c\n"


class PlayedRest(ThreadingHTTPServer):
    """Answers `/connectors/{name}/status` with the task states it is given; 404 for others."""

    def __init__(self) -> None:
        self.states: dict[str, list[str]] = {}
        super().__init__(("127.0.0.1", 0), StatusHandler)
        self.url = f"http://127.0.0.1:{self.server_port}"


class StatusHandler(BaseHTTPRequestHandler):
    server: PlayedRest

    def do_GET(self) -> None:
        name = self.path.split("/")[2]
        states = self.server.states.get(name)
        tasks = [{"id": n, "state": state, "trace": "Boom"} for n, state in enumerate(states or ())]
        body = {"name": name, "connector": {"state": "RUNNING"}, "tasks": tasks}
        self.send_response(404 if states is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def rest() -> Iterator[PlayedRest]:
    with PlayedRest() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_watch_waits_for_every_connector_and_task(rest: PlayedRest) -> None:
    watch = PipeWatch(rest.url, "127.0.0.1:9", "t", ("one", "two"))
    with httpx.Client(base_url=rest.url, timeout=60) as client:
        rest.states = {"one": ["RUNNING"]}
        watch._ask_worker(client)
        assert watch.answers.is_set()
        assert not watch.running
        rest.states = {"one": ["RUNNING"], "two": []}
        watch._ask_worker(client)
        assert not watch.running
        rest.states = {"one": ["RUNNING"], "two": ["RUNNING"]}
        watch._ask_worker(client)
        assert watch.running
        assert watch.failure is None
        rest.states = {"one": ["RUNNING"], "two": ["FAILED"]}
        watch._ask_worker(client)
        assert not watch.running
        assert watch.failure == "two task 0 has FAILED: Boom"
