"""Whole batches copied by a task's reader, and what becomes of them if the target is away or refuses them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.source.task import MirrorSourceTask
from headrace.plugins.contracts import Limit, Plan, Stop, TaskContext
from headrace.plugins.errors import RetriableError
from headrace.plugins.stopping import StopToken
from tests.held_ports import held_port
from tests.integration.copied_topics import create, new_name, numbered, records_of, write
from tests.integration.worker_process import dotted, eventually

pytestmark = pytest.mark.kafka


@contextmanager
def started(broker: str, second_broker: str, **target: str) -> Iterator[MirrorSourceTask]:
    """A task of a topic with 300 records in each of two partitions, whose copy has the settings `target`."""
    topic = new_name("jobs")
    create(broker, topic, 2)
    create(second_broker, f"A.{topic}", 2, dotted(target))
    for partition in range(2):
        write(broker, topic, map(numbered, range(300)), partition)
    made = MirrorSourceTask()
    config = {
        "name": "m",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": broker,
        "target.cluster.bootstrap.servers": second_broker,
        "task.assigned.partitions": f"{topic}-0,{topic}-1",
        "task.index": "0",
    }
    made.start(config, TaskContext("m", 0, StopToken()))
    yield made
    made.stop()


@pytest.fixture
def task(broker: str, second_broker: str) -> Iterator[MirrorSourceTask]:
    with started(broker, second_broker) as made:
        yield made


def planned(task: MirrorSourceTask) -> Plan:
    """Both partitions, whole."""
    found: list[Plan] = []

    def is_whole() -> bool:
        plan = task.plan([None for _ in task.partitions()], Limit(1_000_000, 1 << 30))
        found.append(plan) if plan is not None else None
        return plan is not None and len(plan.splits) == 2

    eventually(is_whole, 60)
    return found[-1]


def test_the_splits_of_a_plan_are_copied(task: MirrorSourceTask, broker: str, second_broker: str) -> None:
    plan = planned(task)
    target = ClientConfig("producer", {"bootstrap.servers": second_broker})
    reached = task.reader(plan).copy(range(2), target, StopToken())
    (remote,) = task.topics()
    assert {split: (one.written, one.source_offset, one.reason) for split, one in reached.items()} == {
        split: (300, {"offset": 299}, None) for split in range(2)
    }
    for one in reached.values():
        assert one.topics == (remote,)
        assert (one.deliveries[-1].source_offset, one.deliveries[-1].offset) == ({"offset": 299}, 299)
    assert records_of(second_broker, remote) == records_of(broker, remote.removeprefix("A."))


def test_a_plan_whose_target_is_away_is_tried_again(task: MirrorSourceTask) -> None:
    plan = planned(task)
    nowhere = ClientConfig("producer", {"bootstrap.servers": f"127.0.0.1:{held_port()}"})
    with pytest.raises(RetriableError, match=r"target \(B\)"):
        task.reader(plan).copy(range(2), nowhere, StopToken())


def test_what_the_target_refuses_is_not_passed_over(broker: str, second_broker: str) -> None:
    target = ClientConfig("producer", {"bootstrap.servers": second_broker})
    with started(broker, second_broker, max_message_bytes="500") as task:
        plan = planned(task)
        reached = task.reader(plan).copy(range(2), target, StopToken())
        for one in reached.values():
            assert (one.stop, one.source_offset, one.written) == (Stop.AS_RECORDS, None, 0)
            assert "MessageSizeTooLarge" in (one.reason or "")
        task.delivered([replace(one, source_partition=plan.splits[split].partition) for split, one in reached.items()])
        again = planned(task)
        assert [split.after for split in again.splits] == [{"offset": -1}] * 2, "nothing is passed over"
        assert not task.reader(again).can_copy(target), "records are read one by one"
        for number, one in enumerate(again.splits):
            rows = sum(batch.num_rows for batch in task.reader(again).read(number))
            assert (rows, one.upto) == (300, {"offset": 299})
