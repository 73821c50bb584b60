"""The source offsets of a cluster over a topic in memory, and the key bytes that Java's workers look up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.plugins.contracts import RetriableError
from headrace.worker.errors import ConnectError, TimedOut
from headrace.worker.storage.offset_topic import OffsetTopic, java_order, key_of
from tests.unit.worker.storage.fake_topic import CONFIG, FakeLog, FakeTopic

FILE = {"filename": "/tmp/a"}
KEY = '["c",{"filename":"/tmp/a"}]'

Join = Callable[[], OffsetTopic]


@pytest.fixture
def log() -> FakeLog:
    return FakeLog()


@pytest.fixture
def join(log: FakeLog) -> Iterator[Join]:
    """Makes a worker's store, started."""
    made: list[OffsetTopic] = []

    def join() -> OffsetTopic:
        made.append(OffsetTopic(CONFIG, log.open))  # type: ignore[arg-type]
        made[-1].start(60)
        return made[-1]

    yield join
    for store in made:
        store.stop()


@pytest.mark.parametrize(
    ("names", "order"),
    [
        ("topic partition cluster", "cluster partition topic"),
        ("group topic partition", "partition topic group"),
        ("targetClusterAlias sourceClusterAlias", "sourceClusterAlias targetClusterAlias"),
        ("table database", "database table"),
        ("partition server", "server partition"),
        ("server partition", "server partition"),
        ("kafka_topic kafka_partition", "kafka_partition kafka_topic"),
        ("filename", "filename"),
        ("", ""),
        # What a HashMap of Java 21 printed: a full one, two keys with one hash, one that has grown, other scripts.
        ("k12 k11 k10 k9 k8 k7 k6 k5 k4 k3 k2 k1", "k1 k2 k3 k4 k11 k5 k10 k6 k7 k12 k8 k9"),
        ("BB Aa", "BB Aa"),
        ("Aa BB", "Aa BB"),
        ("m n o p q r s t u v w x y z a b c d e f g h i j k l", "a b c d e f g h i j k l m n o p q r s t u v w x y z"),
        ("ünï 日本 😀 x", "😀 x 日本 ünï"),
    ],
)
def test_members_stand_in_the_order_of_a_hash_map(names: str, order: str) -> None:
    assert " ".join(java_order(names.split())) == order


def test_a_key_is_what_java_looks_up() -> None:
    mirror = {"topic": "t", "partition": 0, "cluster": "A"}
    assert key_of("MirrorSourceConnector", mirror) == (
        b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]'
    )
    assert key_of('c"ü', {"filename": None}) == '["c\\"ü",{"filename":null}]'.encode()
    assert key_of("c", {"x": 1e10}) == b'["c",{"x":1.0E10}]'


def test_what_is_flushed_is_read_by_all(log: FakeLog, join: Join) -> None:
    first, second = join(), join()
    first.set("c", FILE, {"position": 30, "_head": None})
    first.set("d", {"table": "t", "database": "x"}, {"id": 1.5})
    assert log.records == []
    assert (first.get("c", FILE), second.get("c", FILE)) == ({"position": 30, "_head": None}, None)
    first.flush()
    assert log.pairs() == [
        (KEY, '{"position":30,"_head":null}'),
        ('["d",{"database":"x","table":"t"}]', '{"id":1.5}'),
    ]
    for store in (first, second, join()):
        assert store.get("c", FILE) == {"position": 30, "_head": None}
        assert store.of("d") == [({"database": "x", "table": "t"}, {"id": 1.5})]
        assert store.get("d", {"database": "x", "table": "t"}) == {"id": 1.5}
        assert store.get("c", {"filename": "/tmp/b"}) is None
    first.flush()
    assert len(log.records) == 2


def test_every_spelling_in_the_topic_is_kept_up(log: FakeLog, join: Join) -> None:
    spellings = ['["c",{"table":"t","database":"x"}]', '["c", {"database": "x", "table": "t"}]']
    for spelling in spellings:
        log.put(spelling, '{"id":1}')
    store = join()
    store.set("c", {"database": "x", "table": "t"}, {"id": 2})
    store.flush()
    assert log.pairs()[2:] == [(spelling, '{"id":2}') for spelling in spellings]
    store.set("c", {"database": "x", "table": "t"}, None)
    store.flush()
    assert log.pairs()[4:] == [(spelling, None) for spelling in spellings]
    assert (store.partitions("c"), join().of("c")) == ([], [])


def test_a_tombstone_forgets_and_the_spelling_stays(log: FakeLog, join: Join) -> None:
    log.put('["c",{"b":1,"a":2}]', '{"id":1}')
    log.put('["c",{"b":1,"a":2}]', None)
    store = join()
    assert (store.of("c"), store.get("c", {"a": 2, "b": 1})) == ([], None)
    store.set("c", {"a": 2, "b": 1}, {"id": 2})
    store.flush()
    assert log.pairs()[-1] == ('["c",{"b":1,"a":2}]', '{"id":2}')


def test_an_offset_does_not_go_back_while_the_topic_is_read_late(log: FakeLog, join: Join) -> None:
    store = join()
    topic: FakeTopic = log.topics[0]
    topic.lags = True
    for position in (1, 2, 3):
        store.set("c", FILE, {"position": position})
        store.flush()
        assert store.get("c", FILE) == {"position": position}
    topic.lags = False
    seen = []
    for record in log.records:
        topic.on_record(record)
        seen.append(store.get("c", FILE))
    assert seen == [{"position": 3}] * 3
    topic.read = len(log.records)
    log.put(KEY, '{"position":4}')
    assert store.get("c", FILE) == {"position": 4}
    assert store.of("c") == [(FILE, {"position": 4})]


def test_refresh_brings_what_other_workers_stored(log: FakeLog, join: Join) -> None:
    store, other = join(), join()
    log.topics[0].lags = True
    store.set("c", FILE, {"position": 1})
    store.flush()
    other.set("c", FILE, {"position": 9})
    other.flush()
    assert store.get("c", FILE) == {"position": 1}
    store.refresh()
    assert store.get("c", FILE) == {"position": 9}


def test_a_topic_that_does_not_answer_may_be_asked_again(
    join: Join, log: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = join()

    def late(_timeout_s: float) -> None:
        raise TimedOut("not yet")

    monkeypatch.setattr(log.topics[0], "read_to_end", late)
    with pytest.raises(RetriableError, match="not yet"):
        store.refresh()


def test_durable_advances_with_what_has_arrived(log: FakeLog, join: Join, caplog: pytest.LogCaptureFixture) -> None:
    store = join()
    first = store.set("c", FILE, {"position": 1})
    assert store.durable < first
    store.flush()
    assert store.durable == first
    log.held = []
    second = store.set("c", FILE, {"position": 2})
    store.flush()
    assert "could not be stored within 200 ms (offset.flush.timeout.ms)" in caplog.text
    third = store.set("c", FILE, {"position": 3})
    assert first <= store.durable < second
    log.arrive()
    store.flush()
    assert store.durable == third
    assert [value for _, value in log.pairs()] == [f'{{"position":{n}}}' for n in (1, 2, 3)]


def test_what_failed_is_written_with_the_next_flush_unless_there_is_something_newer(
    log: FakeLog, join: Join, caplog: pytest.LogCaptureFixture
) -> None:
    store = join()
    log.errors = [ConnectError("full"), ConnectError("full")]
    number = store.set("c", FILE, {"position": 1})
    store.set("c", {"filename": "b"}, {"position": 1})
    store.flush()
    assert (log.records, store.durable) == ([], 0)
    assert "The offset of" in caplog.text
    assert "of connector c could not be stored: full" in caplog.text
    assert store.get("c", FILE) == {"position": 1}
    store.set("c", FILE, {"position": 2})
    assert store.durable < number
    store.flush()
    assert sorted(value or "" for _, value in log.pairs()) == ['{"position":1}', '{"position":2}']
    assert store.durable == 3


def test_released_offsets_are_not_written_later(log: FakeLog, join: Join) -> None:
    store = join()
    log.put(KEY, '{"position":1}')
    log.errors = [RetriableError("away")]
    number = store.set("c", FILE, {"position": 2})
    store.set("c", {"filename": "b"}, {"position": 7})
    store.flush()
    assert store.release("c", [FILE])
    assert not store.release("c", [FILE, {"filename": "unknown"}])
    store.flush()
    assert (store.get("c", FILE), store.durable) == ({"position": 1}, number + 1)
    assert KEY not in [key for key, _ in log.pairs()[1:]]


def test_released_offsets_that_are_on_their_way_do_not_arrive(log: FakeLog, join: Join) -> None:
    store = join()
    log.held = []
    store.set("c", FILE, {"position": 2})
    store.set("d", FILE, {"position": 7})
    store.flush()
    assert store.release("c", [FILE])
    store.flush()  # learns that the other one failed, too
    store.flush()
    assert log.pairs() == [('["d",{"filename":"/tmp/a"}]', '{"position":7}')]


def test_what_arrived_is_not_released(log: FakeLog, join: Join) -> None:
    store = join()
    log.topics[0].lags = True
    store.set("c", FILE, {"position": 2})
    store.flush()
    assert not store.release("c", [FILE])
    assert store.get("c", FILE) == {"position": 2}


def test_partitions_count_what_is_not_stored_yet(log: FakeLog, join: Join) -> None:
    store = join()
    log.put(KEY, '{"position":1}')
    store.set("c", {"filename": "b"}, {"position": 1})
    assert store.partitions("c") == [FILE, {"filename": "b"}]
    store.set("c", FILE, None)
    assert store.of("c") == [({"filename": "b"}, {"position": 1})]


@pytest.mark.parametrize("key", ["no json", "{}", '["c"]', '["c",[1]]', '[1,{"a":1}]', '"c"', "17"])
def test_other_keys_are_passed_over_and_told(
    log: FakeLog, join: Join, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    store = join()
    log.put(key, "{}")
    log.put('["c",null]', '{"position":1}')
    log.put(KEY, '{"position":1}')
    assert store.partitions("c") == [FILE]
    assert caplog.text.count("Ignoring the record with the key") == 1


@pytest.mark.parametrize("value", ["[]", "no json", '"x"'])
def test_an_offset_that_cannot_be_read_is_told_when_it_is_wanted(log: FakeLog, join: Join, value: str) -> None:
    store = join()
    log.put(KEY, value)
    for ask in (lambda: store.get("c", FILE), lambda: store.of("c")):
        with pytest.raises(ConnectError, match=r"cannot be read.*alter or reset its offsets"):
            ask()
    assert store.partitions("c") == [FILE]
    store.set("c", FILE, None)
    store.flush()
    assert store.of("c") == []


def test_an_offset_that_json_cannot_hold_is_refused_at_once(log: FakeLog, join: Join) -> None:
    store = join()
    with pytest.raises(TypeError):
        store.set("c", FILE, {"position": b"x"})
    store.flush()
    assert (log.records, store.durable) == ([], 0)


def test_many_threads_lose_nothing(log: FakeLog, join: Join) -> None:
    store = join()
    numbers: list[int] = []

    def work(connector: str) -> None:
        for position in range(50):
            numbers.append(store.set(connector, FILE, {"position": position}))
            if position % 10 == 0:
                store.flush()

    threads = [threading.Thread(target=work, args=(f"c{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    store.flush()
    assert store.durable == max(numbers)
    fresh = join()
    found: list[Any] = [fresh.get(f"c{n}", FILE) for n in range(4)]
    assert found == [{"position": 49}] * 4
