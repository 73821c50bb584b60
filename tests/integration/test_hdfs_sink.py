"""Topics into partitioned files of a local disk, by a real worker: when they end, what they hold, that each record is
in one of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import fastavro
import pyarrow.parquet as pq
import pytest

from tests.files_below import files_below
from tests.integration.hive_server import HiveServer
from tests.integration.test_hive_tables import rows as hive_rows
from tests.integration.worker_process import Topic, WorkerProcess, eventually

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "key.converter.schemas.enable": "false"}
STRUCT = {
    "type": "struct",
    "optional": False,
    "name": "org.example.Order",
    "fields": [
        {"field": "id", "type": "int32", "optional": False},
        {"field": "country", "type": "string", "optional": True},
    ],
}


def order(number: int, country: str = "DE") -> bytes:
    return json.dumps({"schema": STRUCT, "payload": {"id": number, "country": country}}).encode()


class Sink:
    """A sink of files, its topic and its folder."""

    def __init__(self, worker: WorkerProcess, topic: Topic, folder: Path, settings: dict[str, str]) -> None:
        self.worker, self.topic, self.folder = worker, topic, folder
        self.name = f"sink-of-{topic.name}"
        self.config = {
            "connector.class": "io.confluent.connect.hdfs.HdfsSinkConnector",
            "topics": topic.name,
            "store.url": f"file://{folder}",
            "format.class": "parquet",
            "flush.size": "3",
            **JSON,
            **settings,
        }
        worker.create(self.name, **self.config)

    def files(self) -> dict[str, Path]:
        """The committed files by their path below the topic's folder."""
        above = self.folder / "topics" / self.topic.name
        return {str(path.relative_to(above)): path for path in files_below(above)}

    def wait_files(self, *paths: str) -> dict[str, Path]:
        """The files once there are just these; `{}` stands for the topic's name."""
        wanted = sorted(path.format(self.topic.name) for path in paths)
        eventually(
            lambda: sorted(self.files()) == wanted,
            180,  # a first job on a cold Spark takes a busy machine more than a minute
            lambda: f"{sorted(self.files())} and not {wanted}; {self.worker.get(f'/connectors/{self.name}/status')}",
        )
        return self.files()


@pytest.fixture
def start(worker: WorkerProcess, broker: str, tmp_path: Path) -> Iterator[Callable[..., Sink]]:
    started: list[Sink] = []

    def start(partitions: int = 1, **settings: str) -> Sink:
        topic = Topic(broker, "orders", partitions)
        started.append(
            Sink(worker, topic, tmp_path / topic.name, {key.replace("_", "."): v for key, v in settings.items()})
        )
        return started[-1]

    yield start
    for one in started:
        worker.request("DELETE", f"/connectors/{one.name}")


def ids(path: Path) -> list[int]:
    found: list[int] = pq.read_table(path)["id"].to_pylist()
    return found


def test_files_end_by_count(start: Callable[..., Sink]) -> None:
    sink = start(partitions=2)
    sink.topic.send([order(number) for number in range(7)])
    sink.topic.send([order(number) for number in range(100, 104)], partition=1)
    files = sink.wait_files(
        "partition=0/{0}+0+0000000000+0000000002.parquet",
        "partition=0/{0}+0+0000000003+0000000005.parquet",
        "partition=1/{0}+1+0000000000+0000000002.parquet",
    )
    assert [ids(path) for path in files.values()] == [[0, 1, 2], [3, 4, 5], [100, 101, 102]]
    sink.topic.send([order(7), order(8)])
    files = sink.wait_files(*files, "partition=0/{0}+0+0000000006+0000000008.parquet")
    assert [ids(path) for path in files.values()][2] == [6, 7, 8]


def test_a_restart_goes_on_after_the_last_file(start: Callable[..., Sink]) -> None:
    sink = start()
    sink.topic.send([order(number) for number in range(5)])
    first = sink.wait_files("partition=0/{0}+0+0000000000+0000000002.parquet")
    sink.worker.request("POST", f"/connectors/{sink.name}/restart?includeTasks=true").raise_for_status()
    sink.worker.wait_states(sink.name, "RUNNING")
    sink.topic.send([order(5)])
    files = sink.wait_files(*first, "partition=0/{0}+0+0000000003+0000000005.parquet")
    assert [ids(path) for path in files.values()] == [[0, 1, 2], [3, 4, 5]]


def test_the_clock_ends_files(start: Callable[..., Sink]) -> None:
    sink = start(
        flush_size="1000",
        rotate_interval_ms="500",
        partitioner_class="FieldPartitioner",
        partition_field_name="country",
    )
    sink.topic.send([order(1, "DE"), order(2, "FR"), order(3, "DE")])
    files = sink.wait_files(
        "country=DE/{0}+0+0000000000+0000000002.parquet", "country=FR/{0}+0+0000000001+0000000001.parquet"
    )
    assert [ids(path) for path in files.values()] == [[1, 3], [2]]


def test_a_backlog_is_written_by_jobs(start: Callable[..., Sink], worker: WorkerProcess) -> None:
    sink = start(partitions=2, flush_size="40000")
    worker.request("PUT", f"/connectors/{sink.name}/pause")
    worker.wait_states(sink.name, "PAUSED")
    for partition in range(2):
        sink.topic.send([order(number) for number in range(100_000)], partition)
    before = len(worker.log())
    worker.request("PUT", f"/connectors/{sink.name}/resume")
    wanted = [
        f"partition={partition}/{{0}}+{partition}+{begin:010d}+{begin + 39_999:010d}.parquet"
        for partition in range(2)
        for begin in (0, 40_000)
    ]
    files = sink.wait_files(*wanted)
    assert [ids(path) for path in files.values()] == [[*range(40_000)], [*range(40_000, 80_000)]] * 2
    sink.topic.send([order(number) for number in range(100_000, 120_000)])
    files = sink.wait_files(*wanted, "partition=0/{0}+0+0000080000+0000119999.parquet")
    assert ids(files[f"partition=0/{sink.topic.name}+0+0000080000+0000119999.parquet"]) == [*range(80_000, 120_000)]
    assert "ERROR" not in worker.log()[before:]


@pytest.mark.long
@pytest.mark.parametrize("without", [[30_000], *(pytest.param(one, marks=pytest.mark.soak) for one in ([], [99_999]))])
def test_parts_of_a_partition_make_the_files_of_one_writer(
    start: Callable[..., Sink], worker: WorkerProcess, without: list[int]
) -> None:
    """A record that counts in no file shifts all files after it; parts that knew nothing of it come again."""
    sink = start(flush_size="20000", behavior_on_null_values="ignore")
    worker.request("PUT", f"/connectors/{sink.name}/pause")
    worker.wait_states(sink.name, "PAUSED")
    sink.topic.send([None if number in without else order(number) for number in range(140_000)])
    worker.request("PUT", f"/connectors/{sink.name}/resume")
    written = [number for number in range(140_000) if number not in without]
    wanted = [written[begin : begin + 20_000] for begin in range(0, len(written) - 19_999, 20_000)]
    paths = [f"partition=0/{{0}}+0+{one[0]:010d}+{one[-1]:010d}.parquet" for one in wanted]
    assert [ids(path) for path in sink.wait_files(*paths).values()] == wanted
    staged = sink.folder / "topics" / "+tmp"
    assert staged.exists()
    assert not list(staged.rglob("*.parquet")), "of parts that were discarded"


def test_bad_records_are_dead_letters_and_files_go_on(start: Callable[..., Sink], broker: str) -> None:
    letters = Topic(broker, "letters")
    by_country = {"partitioner_class": "FieldPartitioner", "partition_field_name": "country"}
    dead = {"errors_tolerance": "all", "errors_deadletterqueue_topic_name": letters.name}
    sink = start(**by_country, **dead, errors_deadletterqueue_topic_replication_factor="1")
    sink.topic.send([order(0), b"no JSON", order(2), order(3)])
    files = sink.wait_files("country=DE/{0}+0+0000000000+0000000003.parquet")
    assert [ids(path) for path in files.values()] == [[0, 2, 3]]
    eventually(lambda: letters.values() == [b"no JSON"], 60)


def test_nothing_after_a_record_that_fails_is_written(start: Callable[..., Sink]) -> None:
    sink = start(flush_size="2")
    sink.topic.send([order(0), order(1), order(2), b"no JSON", order(4), order(5)])
    sink.worker.wait_states(sink.name, "FAILED")
    assert "offset 3" in sink.worker.trace(sink.name)
    sink.wait_files("partition=0/{0}+0+0000000000+0000000001.parquet")


@pytest.mark.long
def test_a_topic_is_a_table_of_hive(start: Callable[..., Sink], hive_server: HiveServer, tmp_path: Path) -> None:
    database = f"db_{uuid4().hex}"
    hive = {"hive_integration": "true", "hive_metastore_uris": hive_server.uris, "hive_database": database}
    by_country = {"partitioner_class": "FieldPartitioner", "partition_field_name": "country"}
    sink = start(schema_compatibility="BACKWARD", **by_country, **hive)
    sink.topic.send([order(1, "DE"), order(2, "D/E"), order(3, "DE")])
    sink.wait_files(
        "country=DE/{0}+0+0000000000+0000000002.parquet", "country=D%2FE/{0}+0+0000000001+0000000001.parquet"
    )
    table = f"{database}.{sink.topic.name.replace('-', '_')}"
    # A file is there a moment before the metastore is to be told of it; then the offset follows.
    eventually(lambda: [one["offset"]["kafka_offset"] for one in sink.worker.offsets(sink.name)] == [3], 60)

    def told() -> bool:
        metrics = sink.worker.http.get("/metrics").text
        lines = [line for line in metrics.splitlines() if line.startswith("headrace_hive_waiting{")]
        return bool(lines) and all(float(line.split()[-1]) == 0 for line in lines)

    eventually(told, 60, sink.worker.log)
    (found,) = hive_rows(hive_server, tmp_path, f"SELECT id, country FROM {table} ORDER BY id")
    assert found == [["1", "DE"], ["2", "D/E"], ["3", "DE"]]


def found(path: Path) -> list[int]:
    """The ids in a file of either format."""
    if path.suffix == ".parquet":
        return ids(path)
    with open(path, "rb") as file:
        return [row["id"] for row in fastavro.reader(file)]  # type: ignore[index, call-overload]


@pytest.mark.parametrize("kind", ["parquet", "avro"])
def test_small_files_become_few_and_each_record_stays_in_one(start: Callable[..., Sink], kind: str) -> None:
    by_country = {"partitioner_class": "FieldPartitioner", "partition_field_name": "country"}
    sink = start(format_class=kind, compact_files="4", **by_country)
    countries = {"DE": range(0, 60, 2), "FR": range(1, 60, 2)}

    def settled(upto: int) -> bool:
        """True if each directory has few files, all merged, which hold each of its records once, in order."""
        for country, numbers in countries.items():
            files = [path for name, path in sink.files().items() if name.startswith(f"country={country}/")]
            try:
                there = [number for path in files for number in found(path)]
            except FileNotFoundError:  # it was replaced meanwhile
                return False
            if len(files) > 3 or there != [number for number in numbers if number < upto]:
                return False
        return not [path for path in (sink.folder / "topics" / "+tmp").rglob("*/0/*") if path.is_dir()]

    for begin in range(0, 60, 15):
        sink.topic.send([order(number, "FR" if number % 2 else "DE") for number in range(begin, begin + 15)])
        eventually(lambda: settled(begin + 15), 60, lambda: [*sink.files(), sink.worker.log()[-2000:]])  # noqa: B023
        if begin == 15:
            sink.worker.request("POST", f"/connectors/{sink.name}/restart?includeTasks=true").raise_for_status()
            sink.worker.wait_states(sink.name, "RUNNING")
    metrics = sink.worker.http.get("/metrics").text
    replaced = [line for line in metrics.splitlines() if line.startswith("headrace_compact_replaced_total{")]
    assert float(replaced[0].split()[-1]) >= 8


def test_offsets_that_are_reset_read_a_topic_again(start: Callable[..., Sink], worker: WorkerProcess) -> None:
    sink = start()
    sink.topic.send([order(number) for number in range(3)])
    (path,) = sink.wait_files("partition=0/{0}+0+0000000000+0000000002.parquet").values()
    worker.request("PUT", f"/connectors/{sink.name}/stop")
    eventually(lambda: worker.get(f"/connectors/{sink.name}/status")["connector"]["state"] == "STOPPED", 60)
    assert "reset" in worker.request("DELETE", f"/connectors/{sink.name}/offsets").text
    path.unlink()
    worker.request("PUT", f"/connectors/{sink.name}/resume")
    again = sink.wait_files("partition=0/{0}+0+0000000000+0000000002.parquet")
    assert [ids(path) for path in again.values()] == [[0, 1, 2]]
