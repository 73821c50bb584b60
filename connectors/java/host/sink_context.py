"""A sink task's context for the plugin, in the host; its requests go to the worker with the next answer.

Decided: `timeout` sets when `put` is called without records, and not how soon a batch is retried, which is the worker's
back-off; loses: a plugin's own pace of retries.

Decided: it is of Connect's own class and has a stand-in for a consumer, because Iceberg's sink, and those made after
it, take the consumer out of a private field to commit their offsets in their own transaction; loses: the rest of a
consumer, which throws NoSuchMethodError.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jpype

from headrace.connectors.java.host.contexts import failure
from headrace.connectors.java.host.jvm import Jvm
from headrace.connectors.java.host.metrics import plugin_metrics, task_tags

_TOPIC_PARTITION: Final = "org.apache.kafka.common.TopicPartition"


class SinkContext:
    """A plugin's requests since they were last taken, and its partitions."""

    def __init__(self) -> None:
        self.assigned: set[tuple[str, int]] = set()
        self.member: Sequence[Any] | None = None
        """The task's `GroupMember`."""
        self.timeout_ms: int | None = None
        self._asked: dict[str, Any] = {}
        self._lock = threading.Lock()

    def take(self) -> dict[str, Any]:
        """Return the requests since the last call."""
        with self._lock:
            asked, self._asked = self._asked, {}
        return asked

    def failed(self, records: Sequence[Sequence[Any]]) -> None:
        """Note records that failed before `put`: topic, partition, offset, message, stage and class of each."""
        if records:
            with self._lock:
                self._asked.setdefault("failed", []).extend(records)

    def java(self, jvm: Jvm, name: str, config: Mapping[str, str], java_config: Any) -> Any:
        """Return the SinkTaskContext of a task with this config."""
        return jvm.headrace("SinkContext")(self._answers(name, config, java_config), self._consumer())

    def _answers(self, name: str, config: Mapping[str, str], java_config: Any) -> Any:
        metrics = plugin_metrics(task_tags(name))
        reporter = self._reporter() if _reports(config) else None
        return jpype.JProxy(
            "org.apache.kafka.connect.sink.SinkTaskContext",
            dict={
                "configs": lambda: java_config,
                "pluginMetrics": lambda: metrics,
                "offset": self._offset,
                "timeout": self._timeout,
                "assignment": self._assignment,
                "pause": lambda partitions: self._ask_all("pause", partitions),
                "resume": lambda partitions: self._ask_all("resume", partitions),
                "requestCommit": self._commit,
                "errantRecordReporter": lambda: reporter,
            },
        )

    def _consumer(self) -> Any:
        return jpype.JProxy(
            "org.apache.kafka.clients.consumer.Consumer",
            dict={
                "groupMetadata": self._group_metadata,
                "assignment": self._assignment,
                # Plugins seek to them as partitions are revoked. All are revoked at once, and read from there when they
                # return.
                "committed": lambda *_: jpype.java.util.HashMap(),
                "seek": self._seek,
            },
        )

    def _group_metadata(self) -> Any:
        if self.member is None:
            raise jpype.JClass("java.lang.IllegalStateException")("the task has no place in its consumer group yet")
        group, generation, member, instance = self.member
        static = jpype.java.util.Optional.ofNullable(instance)
        return jpype.JClass("org.apache.kafka.clients.consumer.ConsumerGroupMetadata")(
            group, generation, member, static
        )

    def _seek(self, partition: Any, to: Any) -> None:
        """Handle both of Java's: an offset, and one with metadata."""
        self._offset(partition, to.offset() if hasattr(to, "offset") else to)

    def _offset(self, *given: Any) -> None:
        """Handle both of Java's: a map of offsets, or a partition and its offset."""
        pairs = [given] if len(given) == 2 else [(one.getKey(), one.getValue()) for one in given[0].entrySet()]
        with self._lock:
            offsets = self._asked.setdefault("offsets", [])
            offsets.extend([*place_of(partition), int(offset)] for partition, offset in pairs)

    def _timeout(self, milliseconds: int) -> None:
        self.timeout_ms = int(milliseconds) if milliseconds > 0 else None

    def _assignment(self) -> Any:
        return java_partitions(self.assigned, jpype.java.util.HashSet())

    def _ask_all(self, what: str, partitions: Any) -> None:
        with self._lock:
            self._asked.setdefault(what, []).extend(place_of(one) for one in partitions)

    def _commit(self) -> None:
        with self._lock:
            self._asked["commit"] = True

    def _report(self, record: Any, error: Any) -> Any:
        told = failure(error)
        message = f"{told['class']}: {told['message']}"
        place = [str(record.originalTopic()), int(record.originalKafkaPartition()), int(record.originalKafkaOffset())]
        with self._lock:
            self._asked.setdefault("failed", []).append([*place, message, None, None])
        return jpype.JClass("java.util.concurrent.CompletableFuture").completedFuture(None)

    def _reporter(self) -> Any:
        return jpype.JProxy("org.apache.kafka.connect.sink.ErrantRecordReporter", dict={"report": self._report})


def place_of(partition: Any) -> list[Any]:
    """Return the topic and number of a Java TopicPartition."""
    return [str(partition.topic()), int(partition.partition())]


def java_partition(topic: str, number: int) -> Any:
    """Return a Java TopicPartition."""
    return jpype.JClass(_TOPIC_PARTITION)(topic, number)


def java_partitions(places: Any, collection: Any) -> Any:
    """Add these partitions to the Java collection, and return it."""
    for topic, number in places:
        collection.add(java_partition(topic, number))
    return collection


def _reports(config: Mapping[str, str]) -> bool:
    """True if errors are reported, on which `errantRecordReporter` depends in Connect."""
    logs = config.get("errors.log.enable", "false").lower() == "true"
    return logs or bool(config.get("errors.deadletterqueue.topic.name"))
