"""Whole batches copied by a task's reader: by a Spark job, as where Spark is a cluster, and where they are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.source.task import MirrorSourceTask
from headrace.plugins.contracts import Limit, PartitionResult, Plan, Stop, TaskContext
from headrace.plugins.stopping import StopToken
from headrace.worker.engine.programs import Engine
from headrace.worker.machine.processes import free_port
from headrace.worker.pipeline.copy_job import CopyJob
from tests.integration.copied_topics import create, new_name, numbered, records_of, write
from tests.integration.worker_process import eventually
from tests.task_scope import task_scope

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.fixture
def task(broker: str, second_broker: str) -> Iterator[MirrorSourceTask]:
    topic = new_name("jobs")
    create(broker, topic, 2)
    create(second_broker, f"A.{topic}", 2)
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


def planned(task: MirrorSourceTask) -> Plan:
    """Both partitions, whole."""
    found: list[Plan] = []

    def is_whole() -> bool:
        plan = task.plan([None for _ in task.partitions()], Limit(1_000_000, 1 << 30))
        found.append(plan) if plan is not None else None
        return plan is not None and len(plan.splits) == 2

    eventually(is_whole, 30)
    return found[-1]


def test_a_job_copies_the_splits_of_a_plan(
    shared: Engine, task: MirrorSourceTask, broker: str, second_broker: str
) -> None:
    plan = planned(task)
    target = ClientConfig("producer", {"bootstrap.servers": second_broker})
    reached = CopyJob(task_scope(shared), plan, task.reader(plan), target).run()
    (remote,) = task.topics()
    assert {split: (one.written, one.source_offset, one.reason) for split, one in reached.items()} == {
        split: (300, {"offset": 299}, None) for split in range(2)
    }
    for one in reached.values():
        assert one.topics == (remote,)
        assert (one.deliveries[-1].source_offset, one.deliveries[-1].offset) == ({"offset": 299}, 299)
    assert records_of(second_broker, remote) == records_of(broker, remote.removeprefix("A."))


def test_a_split_whose_target_is_away_is_tried_again(shared: Engine, task: MirrorSourceTask) -> None:
    plan = planned(task)
    nowhere = ClientConfig("producer", {"bootstrap.servers": f"127.0.0.1:{free_port()}"})
    reached = CopyJob(task_scope(shared), plan, task.reader(plan), nowhere).run()
    assert {one.stop for one in reached.values()} == {Stop.RETRY}
    assert all("target (B)" in (one.reason or "") for one in reached.values())


def test_what_the_target_refuses_is_not_passed_over(task: MirrorSourceTask, broker: str, second_broker: str) -> None:
    plan = planned(task)
    (remote,) = task.topics()
    target = ClientConfig("producer", {"bootstrap.servers": second_broker})

    def limited(size: int) -> None:
        change = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, remote, incremental_configs=[change])
        admin = AdminClient({"bootstrap.servers": second_broker})
        admin.incremental_alter_configs([resource])[resource].result(30)

    def copied(plan: Plan) -> list[PartitionResult]:
        reached = task.reader(plan).copy(range(len(plan.splits)), target, StopToken())
        made = [replace(one, source_partition=plan.splits[split].partition) for split, one in reached.items()]
        task.delivered(made)
        return made

    limited(500)
    for one in copied(plan):
        assert (one.stop, one.source_offset, one.written) == (Stop.AS_RECORDS, None, 0)
        assert "MessageSizeTooLarge" in (one.reason or "")
    again = planned(task)
    assert [split.after for split in again.splits] == [{"offset": -1}] * 2, "nothing is passed over"
    assert not task.reader(again).can_copy(target), "records are read one by one"
    limited(1_000_000)
    for number, one in enumerate(again.splits):
        rows = sum(batch.num_rows for batch in task.reader(again).read(number))
        assert (rows, one.upto) == (300, {"offset": 299})
