"""The offsets of a task in transactions: what is sent when, and what counts after a failure."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from headrace.config.worker.config import WorkerConfig
from headrace.plugins.offsets import TransactionEnd
from headrace.worker.kafka.transactions import TransactionLost
from headrace.worker.storage.offset_topic import OffsetTopic
from headrace.worker.tasks.transactional_offsets import Boundary, TransactionalOffsets
from tests.unit.worker.storage.fake_topic import CONFIG, FakeLog

PARTITION = {"filename": "a"}
CONNECTOR = {"name": "c", "connector.class": "FileStreamSource"}


class FakeTransactions:
    """Notes what is committed."""

    def __init__(self) -> None:
        self.has_begun = self.is_touched = False
        self.commits: list[list[tuple[str, bytes, bytes | None]]] = []
        self.aborts = 0

    def commit(self, rows: pa.RecordBatch) -> None:
        self.has_begun = False
        columns = (rows[name].to_pylist() for name in ("topic", "key", "value"))
        self.commits.append(list(zip(*columns, strict=True)))

    def abort(self, most_s: float = 0.0) -> None:
        self.has_begun = False
        self.aborts += 1


class Rig:
    def __init__(self, interval_s: float = 0.0) -> None:
        self.log = FakeLog()
        topic = OffsetTopic(CONFIG, self.log.open)  # type: ignore[arg-type]
        topic.start(1)
        self.transactions = FakeTransactions()
        made: Any = self.transactions
        self.offsets = TransactionalOffsets(topic, "c", made, Boundary(interval_s))

    def batch(self, position: int, ends: TransactionEnd | None = None) -> None:
        self.send()
        self.offsets.set("c", PARTITION, {"position": position})
        self.offsets.end_batch(ends)

    def send(self) -> None:
        self.transactions.has_begun = self.transactions.is_touched = True

    @property
    def position(self) -> Any:
        found = self.offsets.get("c", PARTITION)
        return None if found is None else found["position"]


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OffsetTopic, "name", "offsets")


def test_each_batch_is_committed_with_its_offset() -> None:
    rig = Rig()
    rig.batch(1)
    rig.batch(2)
    key = b'["c",{"filename":"a"}]'
    assert rig.transactions.commits == [[("offsets", key, b'{"position":1}')], [("offsets", key, b'{"position":2}')]]
    assert rig.offsets.durable == 2
    assert rig.position == 2


def test_an_offset_is_written_under_each_key_that_the_topic_has() -> None:
    rig = Rig()
    for key in ('["c",{"filename":"a"}]', '["c", {"filename": "a"}]'):
        rig.log.put(key, '{"position":0}')
    rig.batch(1)
    assert [key for _, key, _ in rig.transactions.commits[0]] == [
        b'["c",{"filename":"a"}]',
        b'["c", {"filename": "a"}]',
    ]


def test_batches_within_the_interval_share_a_transaction() -> None:
    rig = Rig(interval_s=600)
    rig.batch(1)
    rig.batch(2)
    assert rig.transactions.commits == []
    assert (rig.position, rig.offsets.durable) == (2, 0)
    rig.offsets.commit()
    assert [value for _, _, value in rig.transactions.commits[0]] == [b'{"position":2}']
    assert rig.offsets.durable == 2


def test_a_failed_batch_is_taken_back_alone() -> None:
    rig = Rig()
    rig.batch(1)
    rig.send()
    rig.offsets.set("c", PARTITION, {"position": 2})
    rig.offsets.abort()
    assert (rig.transactions.aborts, rig.position) == (1, 1)


def test_a_failed_batch_of_several_ends_the_task() -> None:
    rig = Rig(interval_s=600)
    rig.batch(1)
    rig.send()
    with pytest.raises(TransactionLost, match="come again"):
        rig.offsets.abort()
    rig.offsets.commit()
    assert (rig.transactions.commits, rig.offsets.durable) == ([], 0)


def test_a_batch_that_failed_before_it_sent_anything_costs_those_before_it_nothing() -> None:
    rig = Rig(interval_s=600)
    rig.batch(1)
    rig.offsets.abort()
    rig.offsets.commit()
    assert (len(rig.transactions.commits), rig.offsets.durable) == (1, 1)


def test_what_a_failed_batch_has_sent_is_never_committed() -> None:
    rig = Rig(interval_s=600)
    rig.send()
    rig.offsets.set("c", PARTITION, {"position": 1})
    rig.offsets.commit()
    rig.offsets.commit_if_due()
    assert rig.transactions.commits == []
    rig.offsets.give_up()
    assert rig.transactions.aborts == 1


def test_a_connector_s_plans_say_where_a_transaction_ends() -> None:
    rig = Rig(interval_s=math.inf)
    rig.batch(1)
    assert (rig.transactions.commits, rig.offsets.durable) == ([], 0)
    rig.batch(2, TransactionEnd.COMMIT)
    assert [value for _, _, value in rig.transactions.commits.pop()] == [b'{"position":2}']
    rig.batch(3)
    rig.batch(4, TransactionEnd.ABORT)
    assert rig.transactions.aborts == 1, "the records"
    assert [value for _, _, value in rig.transactions.commits.pop()] == [b'{"position":4}']
    assert rig.offsets.durable == 4


def test_a_transaction_that_its_connector_has_not_ended_is_not_committed_at_the_end() -> None:
    for interval_s, ends in ((math.inf, (0, 1)), (600, (1, 0))):
        rig = Rig(interval_s)
        rig.batch(1)
        rig.offsets.finish()
        assert (len(rig.transactions.commits), rig.transactions.aborts) == ends
        assert not rig.offsets.release("c", [PARTITION]), "nothing is told to be lost that comes again"


def test_other_plans_end_no_transaction() -> None:
    rig = Rig(interval_s=600)
    rig.batch(1, TransactionEnd.ABORT)
    assert (rig.transactions.commits, rig.transactions.aborts) == ([], 0)


def test_it_tells_when_an_open_transaction_is_due() -> None:
    rig = Rig(interval_s=60)
    assert rig.offsets.due_s() == math.inf
    rig.batch(1)
    assert 50 < rig.offsets.due_s() <= 60
    rig.offsets.commit()
    assert rig.offsets.due_s() == math.inf


def test_nothing_is_committed_where_nothing_came() -> None:
    rig = Rig()
    rig.offsets.commit()
    rig.offsets.commit_if_due()
    assert rig.transactions.commits == []


@pytest.mark.parametrize(
    ("config", "interval_s"),
    [
        ({}, 0),
        ({"transaction.boundary": "interval"}, 60),
        ({"transaction.boundary": "INTERVAL", "transaction.boundary.interval.ms": "1500"}, 1.5),
        ({"transaction.boundary": "poll", "transaction.boundary.interval.ms": "1500"}, 0),
        ({"transaction.boundary": "Connector"}, math.inf),
    ],
)
def test_the_boundary_is_the_connector_s(config: dict[str, str], interval_s: float) -> None:
    worker: WorkerConfig = CONFIG
    assert Boundary.of(worker, {**CONNECTOR, **config}).interval_s == interval_s
