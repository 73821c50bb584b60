"""A standalone worker for tests of plugins: a process as in production, seen through REST and Kafka."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import httpx
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.plugins.interop.kafka.messages import headers_of
from headrace.worker.embedded.standalone_process import StandaloneProcess
from headrace.worker.machine import processes

_START_S: Final = 180.0
_LOOK_S: Final = 0.05


class Message(NamedTuple):
    """A record as it lies in Kafka."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    partition: int
    offset: int

    def json(self) -> Any:
        """Return the value's JSON."""
        return None if self.value is None else json.loads(self.value)


class PluginWorker(StandaloneProcess):
    """A standalone worker; keys and values are JSON without schemas, unless a connector's config says otherwise."""

    def __init__(self, folder: Path, bootstrap_servers: str, plugin_path: Sequence[Path] = ()) -> None:
        port = processes.free_port()
        settings = self.properties(folder, bootstrap_servers, port) | {
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.flush.interval.ms": "1000",
            "plugin.path": ",".join(map(str, plugin_path)),
        }
        super().__init__(folder, {"worker.properties": settings})
        self.url = f"http://127.0.0.1:{port}"
        self._bootstrap = bootstrap_servers
        self._http = httpx.Client(base_url=self.url, timeout=60)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._http.close()

    def start(self) -> None:
        """Start the worker, and wait until it takes connectors. Errors: AssertionError."""
        super().start()
        self._wait_for(lambda: self._get("/health").get("status") == "healthy", "the worker is healthy", _START_S)

    # -- connectors ----------------------------------------------------------------------------------------------------

    def create(self, name: str, config: Mapping[str, str]) -> None:
        """Create a connector, or change it, and wait until its tasks run. Errors: AssertionError."""
        answer = self._http.put(f"/connectors/{name}/config", json=dict(config))
        if answer.is_error:
            raise AssertionError(f"the connector {name} was refused: {answer.json().get('message', answer.text)}")
        self.wait_for_states(name, "RUNNING")

    def delete(self, name: str) -> None:
        """Delete a connector, with its offsets left as they are."""
        self._http.delete(f"/connectors/{name}").raise_for_status()

    def wait_for_states(self, name: str, state: str, within_s: float = 120) -> None:
        """Wait until all tasks of a connector are in this state. Errors: AssertionError, which shows the trace."""
        self._wait_for(
            lambda: {one["state"] for one in self._tasks(name)} == {state}, f"all tasks of {name} are {state}", within_s
        )

    def trace(self, name: str) -> str:
        """Return why tasks of a connector failed; nothing if they did not."""
        return "\n".join(one["trace"] for one in self._tasks(name) if "trace" in one)

    # -- records -------------------------------------------------------------------------------------------------------

    def send(self, topic: str, values: Sequence[Any], keys: Sequence[Any] = ()) -> None:
        """Put values into a topic, as JSON; None is a tombstone, bytes are as they are."""
        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True})
        for number, value in enumerate(values):
            producer.produce(topic, _bytes(value), key=_bytes(keys[number]) if keys else None)
            producer.poll(0)
        if left := producer.flush(60):
            raise AssertionError(f"{left} records for {topic} did not reach Kafka within 60 s")

    def records(self, topic: str, count: int, within_s: float = 120) -> list[Message]:
        """Return the first records of a topic of one partition, once there are so many. Errors: AssertionError."""
        found: list[Message] = []
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "headrace-testkit",
                             "auto.offset.reset": "earliest", "enable.auto.commit": False,
                             "allow.auto.create.topics": True, "topic.metadata.refresh.interval.ms": 1000})  # fmt: skip
        consumer.assign([TopicPartition(topic, 0, 0)])

        def are_there() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(_message(message))
            return len(found) >= count

        try:
            self._wait_for(are_there, f"{count} records are in the topic {topic}", within_s, lambda: found)
        finally:
            consumer.close()
        return found

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _tasks(self, name: str) -> list[dict[str, Any]]:
        tasks: list[dict[str, Any]] = self._get(f"/connectors/{name}/status").get("tasks", [])
        return tasks

    def _get(self, path: str) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._http.get(path).json()
        except (httpx.HTTPError, ValueError):
            return {}
        return answer

    def _wait_for(
        self, condition: Callable[[], bool], what: str, within_s: float, found: Callable[[], object] = lambda: None
    ) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            ended = self.exit_code()
            if ended is None and time.monotonic() < deadline:
                time.sleep(_LOOK_S)
                continue
            why = f"not within {within_s:.0f} s" if ended is None else f"the worker ended with code {ended}"
            raise AssertionError(f"expected: {what}\nfound: {found()} ({why})\nthe log's end:\n{self.log_end(40)}")


def _message(message: Any) -> Message:
    headers = list(headers_of(message) or ())
    return Message(message.key(), message.value(), headers, message.partition(), message.offset())


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
