"""Previews of configs, what then really happens, and what there was before and after a preview."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from headrace.worker.preview.shown import text_of
from tests.integration import partitions
from tests.integration.worker_process import WorkerProcess, eventually


@dataclass(frozen=True)
class Surroundings:
    """All that a preview could change."""

    worker: WorkerProcess
    bootstrap: str
    folders: Sequence[Path] = ()
    registry: str | None = None

    def look(self) -> dict[str, Any]:
        """Topics with their ends, groups with their offsets, subjects, files, stored offsets."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        topics = admin.list_topics(timeout=60).topics
        asked = {
            TopicPartition(name, number): OffsetSpec.latest()
            for name, topic in topics.items()
            if not name.startswith("__")
            for number in topic.partitions
        }
        found = admin.list_offsets(asked) if asked else {}
        ends = {f"{at.topic}-{at.partition}": future.result(60).offset for at, future in found.items()}
        groups = sorted(one.group_id for one in admin.list_consumer_groups().result(60).valid)
        offsets = {group: self._committed(admin, group) for group in groups}
        files = {
            str(path): (path.stat().st_size, path.stat().st_mtime_ns)
            for folder in self.folders
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.endswith(".jar")
        }
        subjects: list[Any] = []
        if self.registry is not None:
            names = httpx.get(f"{self.registry}/subjects", timeout=60).json()
            paths = {name: f"{self.registry}/subjects/{quote(name, safe='')}/versions" for name in names}
            subjects = [(name, httpx.get(path, timeout=60).json()) for name, path in paths.items()]
        stored = self.worker.offset_file.read_text() if self.worker.offset_file.exists() else ""
        return {
            "ends": ends,
            "groups": offsets,
            "files": files,
            "subjects": sorted(subjects),
            "connectors": sorted(self.worker.get("/connectors")),
            "stored": stored,
        }

    @staticmethod
    def _committed(admin: AdminClient, group: str) -> list[tuple[str, int, int]]:
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
        found = asked[group].result(60).topic_partitions
        return sorted((one.topic, one.partition, one.offset) for one in found)


@dataclass(frozen=True)
class Previewing:
    """Previews configs in one worker."""

    surroundings: Surroundings
    made: list[str] = field(default_factory=list)

    @property
    def worker(self) -> WorkerProcess:
        return self.surroundings.worker

    def preview(self, config: Mapping[str, Any], within_s: float = 120, **query: str) -> Any:
        """The answer for a config that exists nowhere; a worker that has just started may need a second try."""

        def asked() -> Any:
            path = f"/connector-plugins/{config['connector.class']}/config/preview"
            answer = self.worker.http.put(path, json=dict(config), params=query)
            return None if answer.status_code == 503 else answer

        answer = eventually(asked, within_s)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, config: Mapping[str, Any], **query: str) -> str:
        """The reason that a preview of this config is refused."""
        path = f"/connector-plugins/{config['connector.class']}/config/preview"
        answer = self.worker.http.put(path, json=dict(config), params=query)
        assert answer.status_code == 400, answer.text
        return str(answer.json()["message"])

    def posted(self, name: str, changes: Mapping[str, Any], **query: str) -> Any:
        """The answer for a connector that runs, with these changes."""
        answer = self.worker.http.post(f"/connectors/{name}/preview", json=dict(changes), params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    @contextmanager
    def running(self, config: Mapping[str, str]) -> Iterator[None]:
        """The connector runs inside, and is deleted at the end."""
        self.worker.request("PUT", f"/connectors/{config['name']}/config", dict(config))
        try:
            yield
        finally:
            self.worker.request("DELETE", f"/connectors/{config['name']}")

    def stored(self, name: str) -> None:
        """The source's offsets are in the worker's file."""
        eventually(lambda: f'"{name}"' in self.worker.offset_file.read_text(), 120)

    def committed(self, name: str, offset: int) -> None:
        """The sink's group has committed this offset of its only partition."""
        eventually(lambda: [one["offset"]["kafka_offset"] for one in self.worker.offsets(name)] == [offset], 120)

    def unchanged(self, config: Mapping[str, Any], **query: str) -> Any:
        """The answer, after which all is as it was."""
        before = self.surroundings.look()
        answer = self.preview(config, **query)
        assert self.surroundings.look() == before
        return answer

    def written_as_previewed(self, configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The previews of these sources by name, after their connectors ran and wrote just that."""
        before = self.surroundings.look()
        answers = {config["name"]: self.preview(config) for config in configs}
        assert self.surroundings.look() == before
        for config in configs:
            self.worker.request("PUT", f"/connectors/{config['name']}/config", dict(config))
        try:
            for name, answer in answers.items():
                self._check(name, answer)
        finally:
            for name in answers:
                self.worker.request("DELETE", f"/connectors/{name}")
        return answers

    def _check(self, name: str, answer: Mapping[str, Any]) -> None:
        """The connector wrote what its preview shows."""
        records = [one for one in answer["records"] if one["error"] is None and one["filtered"] is None]
        expected = [_shown(*one["stages"][-2:]) for one in records]
        topics = sorted({topic for topic, _ in expected})
        self.arrived(topics, len(expected), name)
        for topic in topics:
            assert [_told(message) for message in self._messages(topic)] == [
                shown for at, shown in expected if at == topic
            ], name

    def arrived(self, topics: Sequence[str], count: int, name: str) -> None:
        """So many records are in these topics."""

        def there() -> bool:
            return sum(len(self._messages(topic)) for topic in topics) >= count

        eventually(there, 120, lambda: self.worker.get(f"/connectors/{name}/status"))

    def _messages(self, topic: str) -> list[Any]:
        count = 1
        found = (
            AdminClient({"bootstrap.servers": self.surroundings.bootstrap}).list_topics(timeout=60).topics.get(topic)
        )
        if found is not None:
            count = max(1, len(found.partitions))
        return [
            one for number in range(count) for one in partitions.messages(self.surroundings.bootstrap, topic, number)
        ]


def _told(message: Any) -> dict[str, Any]:
    """A record in Kafka as a preview shows it."""
    return {
        "key": text_of(message.key()),
        "value": text_of(message.value()),
        "headers": [{"key": key, "value": text_of(value)} for key, value in message.headers() or ()],
    }


def _shown(converted: Mapping[str, Any], written: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The topic and the record; the id of a schema that was not registered yet is left open."""
    assert (converted["stage"], written["stage"]) == ("converted", "written")
    shown = {name: written[name] for name in ("key", "value", "headers")}
    for side, known in converted["registered"].items():
        assert known["takes"]
        shown[side] = shown[side] if known["id"] is not None else AnyId(shown[side])
    return written["topic"], shown


class AnyId(str):
    """Bytes in hex, equal to others but for the id of their schema."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and (self[:4], self[12:]) == (other[:4], other[12:])

    __hash__ = str.__hash__
