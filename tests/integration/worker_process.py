"""A standalone worker as an operator has it: a process, seen through REST, its files and the process table."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

import httpx
import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests import short_jvms
from tests.held_ports import held_port
from tests.integration import partitions

SOURCE = "FileStreamSource"
SINK = "FileStreamSink"

_STACKS = "Current thread 0x"
"""Once in what a process shows of its stacks."""


def eventually(
    condition: Callable[[], Any], within_s: float, what: Callable[[], object] = lambda: "", every_s: float | None = None
) -> Any:
    """The condition's answer, once that is true; `what` is shown if it never is.

    `every_s`: the pause after each try. Without it the pause grows from 0.05 to 0.2 s while time goes by, because a
    try costs up to 20 ms of processor time, of this process, a broker or a worker. To catch a moment, name one.
    """
    began = time.monotonic()
    while not (answer := condition()):
        waited = time.monotonic() - began
        assert waited < within_s, f"it did not happen within {within_s} s: {what()}"
        time.sleep(every_s or min(max(0.05, waited / 20), 0.2))
    return answer


class WorkerProcess:
    """A standalone worker in a folder of its own; as a context manager nothing of it is left at the end.

    All processes that it starts, and those that these start, carry a mark in their environment: `family` finds them
    anywhere.
    """

    command: ClassVar = "connect-standalone"

    def __init__(
        self, folder: Path, bootstrap: str, connectors: Sequence[Path] = (), settings: Mapping[str, str] | None = None
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.log_file = folder / "worker.log"
        self.offset_file = folder / "connect.offsets"
        self.url = f"http://127.0.0.1:{held_port()}"
        self.worker_file = folder / "worker.properties"
        self.connectors = list(connectors)
        self._mark = uuid.uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None
        self.http = httpx.Client(base_url=self.url, timeout=60)
        self.configure(
            {
                "bootstrap.servers": bootstrap,
                "listeners": self.url,
                "key.converter": "org.apache.kafka.connect.json.JsonConverter",
                "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                "offset.flush.interval.ms": "1000",
                **short_jvms.of_spark(),
                **self._storage(),
                **(settings or {}),
            }
        )

    def _storage(self) -> dict[str, str]:
        return {"offset.storage.file.filename": str(self.offset_file)}

    def configure(self, settings: Mapping[str, str]) -> None:
        """The worker's properties are these from its next start on."""
        self.worker_file.write_text(properties(settings), encoding="utf-8")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            said = len(self.log())
            self._show_stacks()
            print(f"--- the end of {self.log_file}:\n{self.log()[max(0, said - 6000) :]}", file=sys.stderr)
        self.kill_family()
        self.http.close()

    def _show_stacks(self) -> None:
        """Log the stacks of all threads of the worker and of its Python workers, as far as they still tell."""
        shown = self.log().count(_STACKS)
        asked = 0
        for process in [p for p in self.family() if p.pid == self.process.pid] + self.python_workers():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGQUIT)
                asked += 1
        with contextlib.suppress(AssertionError):  # one that was stopped says nothing
            eventually(lambda: self.log().count(_STACKS) >= shown + asked, 3)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """The process runs; its output is added to `log_file`."""
        env = {**os.environ, "HEADRACE_TEST_MARK": self._mark, "TMPDIR": str(self.folder)}
        env["CONNECT_LOG4J_LOGGERS"] = (
            "headrace.worker.engine.programs=DEBUG,org.apache.kafka.connect.runtime.rest.RestServer=WARN"
        )
        command = [str(Path(sys.executable).parent / self.command), str(self.worker_file)]
        with open(self.log_file, "ab") as out:
            self._process = subprocess.Popen(
                [*command, *map(str, self.connectors)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.folder,
                env=env,
            )

    def stop(self, within_s: float = 120) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)

    def kill(self) -> None:
        """`kill -9` of the worker's process alone."""
        self.process.kill()
        self.process.wait()

    def kill_family(self) -> None:
        """Nothing that the worker started runs any more."""
        while found := self.family():
            for each in found:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
            psutil.wait_procs(found, timeout=60)
        if self._process is not None:
            self._process.wait(60)

    def family(self) -> list[psutil.Process]:
        """The worker and every process that came of it and still runs."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("HEADRACE_TEST_MARK") == self._mark:
                    found.append(process)
        return found

    def jvm(self) -> psutil.Process:
        """Spark's driver."""
        mains = {"org.apache.spark.api.python.PythonGatewayServer", "org.apache.spark.deploy.SparkSubmit"}
        return next(p for p in self.family() if mains.intersection(p.cmdline()))

    def python_workers(self) -> list[psutil.Process]:
        """Spark's Python workers: the children of its daemon."""
        daemons = {p.pid for p in self.family() if "pyspark.daemon" in p.cmdline()}
        return [p for p in self.family() if p.ppid() in daemons]

    def log(self) -> str:
        """Return all that the worker has logged so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""

    # -- REST ----------------------------------------------------------------------------------------------------------

    def get(self, path: str) -> Any:
        """The answer's JSON."""
        return self.request("GET", path).json()

    def request(self, method: str, path: str, json: Any = None) -> httpx.Response:
        """The answer. Errors: an answer of 400 or more."""
        answer = self.http.request(method, path, json=json)
        assert answer.status_code < 400, answer.text
        return answer

    def create(self, name: str, **config: str) -> None:
        """The connector exists; `_` in a key stands for `.`."""
        self.request("POST", "/connectors", {"name": name, "config": dotted(config)})

    def wait_ready(self, within_s: float = 180) -> Self:
        """The worker is healthy: its connectors exist."""
        eventually(lambda: self._try_get("/health").get("status") == "healthy", within_s, self._last_words)
        return self

    def wait_states(self, connector: str, *states: str, within_s: float = 120) -> None:
        """The connector's tasks are in these states, all of them."""
        eventually(
            lambda: self.states(connector) == list(states),
            within_s,
            lambda: f"{self.states(connector)}; {self._last_words()}",
        )

    def states(self, connector: str) -> list[str]:
        """The states of the connector's tasks; none while nothing answers."""
        return [task["state"] for task in self._try_get(f"/connectors/{connector}/status").get("tasks", ())]

    def trace(self, connector: str, task: int = 0) -> str:
        """The reason that the task failed; empty while it runs."""
        found: str = self.get(f"/connectors/{connector}/status")["tasks"][task].get("trace", "")
        return found

    def offsets(self, connector: str) -> Any:
        """Return what `GET /offsets` lists."""
        return self.get(f"/connectors/{connector}/offsets")["offsets"]

    def _try_get(self, path: str) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self.http.get(path).json()
        except (httpx.HTTPError, ValueError):
            return {}
        return answer

    def _last_words(self) -> str:
        code = self.process.poll()
        ended = "" if code is None else f"the worker ended with {code}; "
        return f"{ended}the end of its log: {self.log()[-3000:]}"


def dotted(config: Mapping[str, str]) -> dict[str, str]:
    """Keyword arguments as settings."""
    return {key.rstrip("_").replace("_", "."): value for key, value in config.items()}


def properties(settings: Mapping[str, str]) -> str:
    """The text of a properties file."""
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def connector_file(folder: Path, name: str, **config: str) -> Path:
    """A connector's properties file; `_` in a key stands for `.`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.properties"
    path.write_text(properties({"name": name, "tasks.max": "1", **dotted(config)}), encoding="utf-8")
    return path


def envelope(line: str) -> bytes:
    """A plain line as JsonConverter writes it."""
    return b'{"schema":{"type":"string","optional":false},"payload":"' + line.encode() + b'"}'


def lines_of(path: Path) -> list[bytes]:
    """The complete lines of a file; none where there is no file."""
    return path.read_bytes().split(b"\n")[:-1] if path.exists() else []


def line_count(path: Path) -> int:
    """The number of complete lines in a file."""
    if not path.exists():
        return 0
    with open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


class Topic:
    """A topic of a test's own, made before anything reads it."""

    def __init__(
        self, bootstrap: str, about: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        self.bootstrap = bootstrap
        self.name = f"{about}-{uuid.uuid4().hex[:8]}"
        self._config: dict[str, Any] = {
            "config": dict(config or {}),
            "num_partitions": partitions,
            "replication_factor": 1,
        }
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.create()

    def create(self) -> None:
        """The topic exists."""

        def made() -> bool:
            try:
                self.admin.create_topics([NewTopic(self.name, **self._config)])[self.name].result(60)
            except Exception as error:
                if "marked for deletion" in str(error):
                    return False
                if "ALREADY_EXISTS" not in str(error):  # whoever reads it may have made it
                    raise
            return True

        eventually(made, 60)

    def delete(self) -> None:
        """The topic is gone."""
        self.admin.delete_topics([self.name])[self.name].result(60)
        eventually(lambda: self.name not in self.admin.list_topics(timeout=60).topics, 60)

    def send(self, values: Sequence[bytes | None], partition: int = 0, keys: Sequence[bytes] | None = None) -> None:
        """These records are in the topic."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 20, "enable.idempotence": True})
        add_to(producer, self.name, values, partition, keys)
        assert producer.flush(60) == 0

    def end(self, partition: int = 0) -> int:
        """The offset behind its last record or marker."""
        return int(eventually(lambda: partitions.watermarks(self.bootstrap, self.name, partition), 60)[1])

    def values(self, partition: int = 0) -> list[bytes]:
        """All values that the partition holds now."""
        return [message.value() or b"" for message in partitions.messages(self.bootstrap, self.name, partition)]


def add_to(
    producer: Any, topic: str, values: Sequence[bytes | None], partition: int = 0, keys: Sequence[bytes] | None = None
) -> None:
    """These records are handed to the producer."""
    for number, value in enumerate(values):
        while True:
            try:
                producer.produce(topic, value, key=keys[number] if keys else None, partition=partition)
                break
            except BufferError:
                producer.poll(0.1)


def first_arrivals(values: Sequence[bytes]) -> list[bytes]:
    """Each value once, where it came first."""
    return list(dict.fromkeys(values))
