"""`headrace mirror verify` against two clusters: what is equal, what is not, and what it says of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from headrace.connectors.mirror.verify.command import app
from tests.held_ports import held_port
from tests.integration.copied_topics import Copy, Record, commit, create, new_name, numbered, records_of, write

pytestmark = pytest.mark.kafka


class Clusters:
    """Two clusters, and the command between them."""

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target

    def copy(self, about: str, partitions: int = 1, **config: str) -> Copy:
        """A topic and its copy, both empty."""
        return Copy(self.source, self.target, about, partitions, {k.replace("_", "."): v for k, v in config.items()})

    def run(self, *arguments: str) -> tuple[int, str]:
        """Exit code and what is said."""
        servers = ("--source-bootstrap", self.source, "--target-bootstrap", self.target)
        result = CliRunner().invoke(app, ["verify", "A", "B", *servers, *arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return result.exit_code, result.output

    def verify(self, copy: Copy, *arguments: str, code: int) -> Any:
        """The report on one topic."""
        exit_code, said = self.run("--json", "--topic", copy.topic, *arguments)
        assert exit_code == code, said
        return json.loads(said)

    def partition(self, copy: Copy, *arguments: str, code: int = 0) -> Any:
        """The report on the only partition of one topic."""
        (partition,) = self.verify(copy, *arguments, code=code)["topics"][0]["partitions"]
        return partition


@pytest.fixture
def clusters(broker: str, second_broker: str) -> Clusters:
    return Clusters(broker, second_broker)


def test_a_whole_copy_is_equal_and_the_digest_is_that_of_the_records(clusters: Clusters) -> None:
    copy = clusters.copy("whole", partitions=3)
    for partition in range(3):
        copy.fill(partition, 500 + partition, partition)
        copy.replicate(partition=partition)
    shown = clusters.verify(copy, "--hash", code=0)
    compared = [one["comparison"] for one in shown["topics"][0]["partitions"]]
    assert [one["upstream_records"] for one in compared] == [500, 501, 502]
    assert all(one["equal"] for one in compared)
    assert len({one["digest"] for one in compared}) == 3
    assert [one["copied"] for one in shown["topics"][0]["partitions"]] == [
        {"upstream": 499 + n, "downstream": 499 + n} for n in range(3)
    ]
    code, said = clusters.run("--topic", copy.topic, "--hash")
    assert code == 0
    assert "Equal, as far as was asked (records compared)." in said


@pytest.mark.long
def test_offsets_that_differ_are_aligned_by_content_and_gaps_are_no_lag(clusters: Clusters) -> None:
    """Transactions leave markers at the source, and aborted records that are not copied."""
    copy = clusters.copy("gaps")
    write(clusters.target, copy.copy, map(numbered, range(5)))  # what the source had once, and has deleted
    producer = Producer({"bootstrap.servers": clusters.source, "transactional.id": copy.topic})
    producer.init_transactions()
    for first, good in ((10, True), (20, False), (30, True), (40, False)):
        producer.begin_transaction()
        for number in range(first, first + 10):
            one = numbered(number)
            producer.produce(copy.topic, one.value, one.key, timestamp=one.timestamp)
        producer.flush(60)
        producer.commit_transaction() if good else producer.abort_transaction()
    copy.replicate()
    committed = ("--set", "source.consumer.isolation.level=read_committed")
    one = clusters.partition(copy, "--hash", *committed)
    assert one["copied"] == {"upstream": 31, "downstream": 24}
    assert one["copied_by"] == "content"
    assert (one["lag_records"], one["lag_is_exact"], one["lag_seconds"]) == (0, True, 0)
    assert one["comparison"]["equal"]
    assert one["comparison"]["upstream"]["start"] == 0
    assert one["comparison"]["downstream"] == {"start": 5, "end": 25}
    assert "older than what the source still has" in one["comparison"]["notes"][0]


@pytest.mark.long
def test_lag_is_counted_in_records_and_seconds_and_max_lag_forgives_it(clusters: Clusters) -> None:
    copy = clusters.copy("lag")
    copy.fill(0, 100)
    copy.replicate(upto=89)
    one = clusters.partition(copy, code=1)
    assert (one["lag_records"], one["lag_seconds"]) == (10, 10)
    assert clusters.partition(copy, "--max-lag", "10", "--hash")["comparison"]["upstream"] == {"start": 0, "end": 90}


def test_an_empty_copy_lacks_everything(clusters: Clusters) -> None:
    copy = clusters.copy("empty")
    assert clusters.partition(copy, "--hash")["comparison"]["equal"]
    copy.fill(0, 10)
    one = clusters.partition(copy, "--hash", code=1)
    assert (one["copied"], one["lag_records"]) == (None, 10)
    assert one["comparison"]["notes"] == ["nothing is copied"]


def doubled(records: list[Record]) -> list[Record]:
    return records[:60] + records[40:]


@pytest.mark.long
def test_repeated_records_are_counted_and_are_no_difference(clusters: Clusters) -> None:
    copy = clusters.copy("repeated")
    copy.fill(0, 100)
    copy.replicate(doubled)
    one = clusters.partition(copy, "--hash")
    assert one["comparison"]["equal"]
    assert one["comparison"]["repeated"] == 20
    assert (one["comparison"]["upstream_records"], one["comparison"]["downstream_records"]) == (100, 120)


@pytest.mark.parametrize(
    ("change", "expected", "said"),
    [
        (lambda all_: all_[:50] + all_[51:], {"missing": 1, "missing_at": [50], "extra": 0}, "missing"),
        (
            lambda all_: [*all_[:50], all_[50]._replace(value=b"other"), *all_[51:]],
            {"missing": 1, "missing_at": [50], "extra": 1, "extra_at": [50]},
            "values differ",
        ),
        (
            lambda all_: [*all_[:50], all_[50]._replace(timestamp=1), *all_[51:]],
            {"missing": 1, "missing_at": [50], "extra": 1, "extra_at": [50]},
            "timestamps differ",
        ),
        (lambda all_: [*all_[:50], all_[51], all_[50], *all_[52:]], {"missing": 0, "extra": 0}, "the order differs"),
        (lambda all_: [*all_[:50], numbered(1000), *all_[50:]], {"extra": 1, "extra_at": [50], "missing": 0}, "alone"),
        (
            lambda all_: all_[7:],
            {"missing": 7, "missing_at": [0], "extra": 0},
            "the copy begins with upstream offset 7",
        ),
    ],
    ids=["lost", "changed", "other-time", "other-order", "too-much", "begins-late"],
)
def test_every_kind_of_difference_is_found(
    clusters: Clusters, change: Callable[[list[Record]], list[Record]], expected: dict[str, Any], said: str
) -> None:
    copy = clusters.copy("different")
    copy.fill(0, 100)
    copy.replicate(change)
    shown = clusters.verify(copy, "--hash", code=1)
    compared = shown["topics"][0]["partitions"][0]["comparison"]
    assert {name: compared[name] for name in expected} == expected
    assert said in " ".join(shown["differences"])


def test_a_range_that_is_asked_for_is_compared_alone(clusters: Clusters) -> None:
    copy = clusters.copy("range")
    write(clusters.target, copy.copy, [numbered(5000)])  # offsets are one apart
    copy.fill(0, 300)
    copy.replicate(lambda all_: [*all_[:50], all_[50]._replace(value=b"other"), *all_[51:]])
    assert clusters.partition(copy, "--hash", code=1)["comparison"]["missing_at"] == [50]

    def compared(*arguments: str, code: int = 0) -> tuple[Any, Any]:
        found = clusters.partition(copy, *arguments, code=code)["comparison"]
        return found["upstream"], found["downstream"]

    assert compared("--last", "100") == ({"start": 200, "end": 300}, {"start": 201, "end": 301})
    assert compared("--from-offset", "60", "--to-offset", "99") == (
        {"start": 60, "end": 100},
        {"start": 61, "end": 101},
    )
    assert compared("--to-offset", "49") == ({"start": 0, "end": 50}, {"start": 1, "end": 51})
    assert compared("--since", "2023-11-14T22:15:20Z")[0] == {"start": 120, "end": 300}
    assert compared("--from-offset", "40", "--to-offset", "60", code=1)[0] == {"start": 40, "end": 61}
    assert compared("--from-offset", "1000")[0] == {"start": 300, "end": 300}


@pytest.mark.long
def test_a_compacted_topic_is_compared_by_the_last_record_of_each_key(clusters: Clusters) -> None:
    copy = clusters.copy("compacted", cleanup_policy="compact")
    for key, number in (("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", 5)):
        write(clusters.source, copy.topic, [numbered(number)._replace(key=key.encode())])
    write(clusters.source, copy.topic, [Record(0, b"c", None, (), 1_700_000_009_000)])
    copy.replicate(lambda all_: [all_[2], all_[4], all_[5]])  # as if it was cleaned first
    assert clusters.partition(copy, "--hash")["comparison"]["by"] == "key"
    write(clusters.source, copy.topic, [numbered(6)._replace(key=b"d"), numbered(7)._replace(key=b"e")])
    copy.replicate(lambda all_: all_[-1:])
    one = clusters.partition(copy, "--hash", code=1)
    assert one["comparison"]["missing"] == 1
    assert one["comparison"]["missing_at"] == [6]


@pytest.mark.long
def test_groups_are_placed_or_it_is_said_why_not(clusters: Clusters) -> None:
    copy = clusters.copy("groups")
    copy.fill(0, 100)
    copy.replicate()
    copy.sync(0, 0)
    copy.sync(40, 40)
    names = {name: f"{name}-{copy.topic}" for name in ("fine", "old", "behind", "other", "negative")}
    for name, offset in {"fine": 50, "old": 60, "behind": 70, "other": 10, "negative": 50}.items():
        commit(clusters.source, names[name], copy.topic, offset)
    copy.checkpoint(names["fine"], 50, 41)
    copy.checkpoint(names["behind"], 45, 41)
    copy.checkpoint(names["negative"], 50, 41)
    for name, offset in {"fine": 41, "behind": 30, "negative": 500}.items():
        commit(clusters.target, names[name], copy.copy, offset)
    synced = ("--set", "sync.group.offsets.enabled=true", "--set", f"groups.exclude={names['other']}")
    wanted = [part for name in names.values() for part in ("--group", name)]
    shown = clusters.verify(copy, *synced, *wanted, code=1)
    places = {place["group"]: place for place in shown["groups"]}
    fine = places[names["fine"]]
    assert (fine["translated"], fine["at_target"], fine["redelivered"], fine["why"]) == (41, 41, 9, [])
    assert "no checkpoint yet" in places[names["old"]]["why"][0]
    assert "behind the checkpoint's" in places[names["behind"]]["why"][0]
    assert places[names["behind"]]["notes"] == ["the checkpoint was made at upstream offset 45: 25 behind the group"]
    assert "not in the filter" in places[names["other"]]["why"][0]
    assert "lag is negative" in places[names["negative"]]["why"][0]
    assert clusters.verify(copy, *synced, "--group", names["fine"], code=0)["equal"]


@pytest.mark.long
def test_settings_partitions_and_a_copy_that_is_not_there_are_differences(clusters: Clusters) -> None:
    name = new_name("settings")
    create(clusters.source, name, 2, {"retention.ms": "1000000", "min.insync.replicas": "1"})
    code, said = clusters.run("--topic", name)
    assert code == 1
    assert f"A.{name} is not at the target" in said
    create(clusters.target, f"A.{name}", 1, {"retention.ms": "-1", "segment.bytes": "10000000"})
    code, said = clusters.run("--topic", name)
    assert code == 1
    assert f"A.{name} has 1 partitions, {name} has 2" in said
    assert "retention.ms is 1000000 at the source and -1 at the target" in said
    assert "segment.bytes is 1073741824 by default at the source and 10000000 at the target" in said
    assert "min.insync" not in said


@pytest.mark.long
def test_log_append_time_at_the_target_leaves_timestamps_out(clusters: Clusters) -> None:
    name = new_name("append-time")
    create(clusters.source, name)
    create(clusters.target, f"A.{name}", config={"message.timestamp.type": "LogAppendTime"})
    write(clusters.source, name, map(numbered, range(20)))
    write(clusters.target, f"A.{name}", map(numbered, range(20)))
    assert records_of(clusters.target, f"A.{name}")[0].timestamp_type == 2
    code, said = clusters.run("--topic", name, "--hash")
    assert code == 0, said
    assert "they are not compared" in said


def test_topics_are_those_that_the_flow_copies(clusters: Clusters) -> None:
    copy, other = clusters.copy("chosen"), clusters.copy("left-out")
    back = create(clusters.source, f"B.{copy.topic}")
    code, said = clusters.run("--json", "--set", f"topics=(B.)?{copy.topic}")
    assert code == 0, said
    assert [one["topic"] for one in json.loads(said)["topics"]] == [copy.topic]
    assert back not in said
    assert other.topic not in said


def test_wrong_use_and_an_unreachable_cluster_have_codes_of_their_own(clusters: Clusters) -> None:
    code, said = clusters.run("--topic", "nowhere")
    assert (code, "has no topic nowhere" in said) == (2, True)
    code, said = clusters.run("--last", "5", "--since", "1h")
    assert (code, "exclude each other" in said) == (2, True)
    away = Clusters(clusters.source, f"127.0.0.1:{held_port()}")
    code, said = away.run("--timeout", "2")
    assert (code, "cluster B does not answer for its topics" in said) == (3, True)


@pytest.mark.long
def test_a_topic_that_was_made_again_is_said_to_be(clusters: Clusters) -> None:
    copy = clusters.copy("again")
    copy.fill(0, 10)
    copy.sync(500, 500)
    write(clusters.target, copy.copy, [numbered(9999)])
    one = clusters.partition(copy, code=1)
    assert any("made again" in note for note in one["notes"])
