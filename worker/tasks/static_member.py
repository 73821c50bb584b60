"""A sink's consumer as a static member of its group: how it leaves, and how it learns that it is fenced.

A static member that vanishes, as after `kill -9`, keeps its place for its session. The next consumer with its
`group.instance.id` has its partitions at once, and the former one is fenced. An orderly end leaves the group, so that
the other tasks go on at once and a STOPPED connector's group is empty.

Decided: the consumer leaves by unsubscribing before it is closed, because librdkafka sends no LeaveGroup for a static
member that is closed; loses: if the broker is away, up to `LEAVE_S` at the end of a task.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from headrace.config.connector.sink_members import with_topics
from headrace.plugins.errors import RetriableError
from headrace.worker.tasks.host import TaskHost

log = logging.getLogger(__name__)

INSTANCE: Final = "group.instance.id"
LEAVE_S: Final = 4.0
_POLL_S: Final = 0.02
FENCED_WAIT_S = 10.0
"""The time in which a worker that lost its membership notices; only if it did not is a fenced task restarted."""
_FENCED: Final = KafkaError(KafkaError.FENCED_INSTANCE_ID).str()


class Fenced(Exception):
    """Another consumer has this task's place in its group."""

    def __init__(self, group: str, instance: str) -> None:
        super().__init__(
            f"Another consumer took this task's place in the group {group}, by the same group.instance.id {instance}. "
            "Where two clusters run this connector, give each its own group.id; where a standalone worker's disk was "
            "copied, remove the copied .member file beside its offset.storage.file.filename; or set "
            "sink.static.membership=false. A consumer.override.group.instance.id "
            "serves one task only"
        )


def end_fenced(error: Fenced, host: TaskHost) -> None:
    """Wait for the end while another worker runs this task. Errors: RetriableError once this worker may."""
    said = False
    while not host.stop.wait(FENCED_WAIT_S):
        if host.membership_ok():
            raise RetriableError(str(error)) from error  # a new consumer takes the place back
        if not said:
            log.warning("The task was taken over by another worker, and writes nothing any more")
            said = True


def is_fenced(error: KafkaError) -> bool:
    """True if a client's error says so; librdkafka wraps it into a fatal one."""
    return bool(error.code() == KafkaError.FENCED_INSTANCE_ID or _FENCED in error.str())


def named_by_topics(consumer: Mapping[str, Any], signature: Callable[[], str]) -> Mapping[str, Any]:
    """Add a member name to the consumer's settings, shared only with a former one of the same `signature`."""
    try:
        return {**consumer, INSTANCE: with_topics(consumer[INSTANCE], signature())}
    except KafkaException as error:
        log.warning(
            "The consumer is a dynamic member of its group until the task begins again, because its topics cannot be "
            "listed yet: %s",
            error,
        )
        return {key: value for key, value in consumer.items() if key != INSTANCE}


def leave(client: Any, group: str, instance: str) -> None:
    """Take the consumer out of its group, revoking its partitions; if that fails its session's end does."""
    until = time.monotonic() + LEAVE_S
    try:
        # Only a member that knows its id can leave; one that has just begun to join has none.
        joined = _poll(client, lambda: bool(client.memberid()), until)
        client.unsubscribe()
        if joined and _poll(client, lambda: not client.memberid(), until):
            return
        why = "the brokers did not answer in time"
    except KafkaException as error:
        why = str(error)
    log.warning(
        "The consumer %s could not leave its group %s (%s): its partitions wait for its session to end, unless the "
        "task begins again before",
        instance,
        group,
        why,
    )


def _poll(client: Any, ready: Callable[[], bool], until: float) -> bool:
    while not ready():
        if time.monotonic() >= until:
            return False
        client.poll(_POLL_S)
    return True
