"""Topics whose schemas change, of many directories or another name, into files: where files end, and what they hold.

The expected cut points follow the rules of schema compatibility in `docs/hdfs.md`, record by record.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from confluent_kafka.schema_registry import ConfigCompatibilityLevel, Schema, SchemaRegistryClient, ServerConfig

from tests.integration.test_hdfs_sink import STRUCT, Sink, order
from tests.integration.worker_process import Topic, WorkerProcess, eventually

ID = {"name": "id", "type": "int"}
NAME = {"name": "name", "type": "string", "default": "none"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
VERSIONS = ([ID], [ID, NAME], [ID, NAME, NOTE])
"""The fields of each version."""
OWN = {"id": None, "name": "own", "note": "own"}
"""Values that records have in the fields of their version."""
DEFAULTS = {"name": "none", "note": None}


@pytest.fixture
def start(worker: WorkerProcess, broker: str, tmp_path: Path) -> Iterator[Callable[..., Sink]]:
    started: list[Sink] = []

    def start(partitions: int = 1, **settings: str) -> Sink:
        topic = Topic(broker, "versions", partitions)
        dotted = {key.replace("_", "."): value for key, value in settings.items()}
        started.append(Sink(worker, topic, tmp_path / topic.name, dotted))
        return started[-1]

    yield start
    for one in started:
        worker.request("DELETE", f"/connectors/{one.name}")


class Evolving:
    """Records of the versions of a topic's schema."""

    def __init__(self, registry: str, topic: str, versions: Sequence[Sequence[Any]] = VERSIONS) -> None:
        client, subject = SchemaRegistryClient({"url": registry, "timeout": 30}), f"{topic}-value"
        self.schemas: list[Any] = [{"type": "record", "name": "Order", "fields": fields} for fields in versions]
        client.set_config(subject, ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
        self._ids = [client.register_schema(subject, Schema(json.dumps(one), "AVRO")) for one in self.schemas]
        self._parsed = [fastavro.parse_schema(one) for one in self.schemas]

    def record(self, version: int, value: dict[str, Any]) -> bytes:
        """A message in Confluent's framing."""
        body = io.BytesIO()
        fastavro.schemaless_writer(body, self._parsed[version - 1], value)
        return b"\0" + self._ids[version - 1].to_bytes(4, "big") + body.getvalue()

    def records(self, versions: Sequence[int], begin: int = 0) -> list[bytes]:
        """Records of these versions, numbered."""
        return [
            self.record(version, {**{one["name"]: OWN[one["name"]] for one in VERSIONS[version - 1]}, "id": number})
            for number, version in enumerate(versions, begin)
        ]


def avro(registry: str, mode: str, flush_size: int) -> dict[str, str]:
    return {
        "format_class": "avro",
        "value_converter": "io.confluent.connect.avro.AvroConverter",
        "value_converter_schema_registry_url": registry,
        "schema_compatibility": mode,
        "flush_size": str(flush_size),
    }


def cuts(versions: Sequence[int], mode: str, flush_size: int) -> list[tuple[int, int, int]]:
    """The first and last offset and the version of each whole file."""
    ends = {"NONE": int.__ne__, "BACKWARD": int.__gt__, "FULL": int.__gt__, "FORWARD": int.__lt__}[mode]
    files, first, current = [], 0, versions[0]
    for offset, version in enumerate(versions):
        if offset > first and ends(version, current):
            files.append((first, offset - 1, current))
            first = offset
        if ends(version, current):
            current = version
        if offset - first + 1 == flush_size:
            files.append((first, offset, current))
            first = offset + 1
    return files


def brought(versions: Sequence[int], number: int, to: int) -> dict[str, Any]:
    """The record of this number with the fields of version `to`."""
    names = [field["name"] for field in VERSIONS[to - 1]]
    has = {field["name"] for field in VERSIONS[versions[number] - 1]}
    return {**{name: OWN[name] if name in has else DEFAULTS[name] for name in names[1:]}, "id": number}


def read(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """The names of a file's fields, and its records."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        schema: Any = reader.writer_schema
        return [field["name"] for field in schema["fields"]], [dict(one) for one in reader]  # type: ignore[arg-type]


def check(sink: Sink, partitions: Sequence[Sequence[int]], mode: str, flush_size: int) -> None:
    """The sink has just the files that these versions, partition by partition, lead to."""
    wanted = {
        f"partition={partition}/{sink.topic.name}+{partition}+{first:010d}+{last:010d}.avro": (versions, *cut)
        for partition, versions in enumerate(partitions)
        for cut in cuts(versions, mode, flush_size)
        for first, last, _ in [cut]
    }
    files = sink.wait_files(*wanted)
    for path, (versions, first, last, version) in wanted.items():
        names, records = read(files[path])
        assert names == [field["name"] for field in VERSIONS[version - 1]], path
        assert records == [brought(versions, number, version) for number in range(first, last + 1)], path


@pytest.mark.parametrize("mode", ["NONE", "BACKWARD", "FORWARD", "FULL"])
def test_versions_end_files_as_the_mode_says(mode: str, start: Callable[..., Sink], registry: str) -> None:
    sink = start(partitions=2, **avro(registry, mode, 4))
    evolving = Evolving(registry, sink.topic.name)
    partitions = [1, 1, 2, 1, 3, 2, 1, 3, 3, 3, 3, 3], [3, 2, 3, 1, 1, 2, 2, 3, 1, 1, 1, 1, 1]
    for partition, versions in enumerate(partitions):
        sink.topic.send(evolving.records(versions), partition)
    check(sink, partitions, mode, 4)


@pytest.mark.long
def test_versions_end_files_of_a_backlog(start: Callable[..., Sink], registry: str, worker: WorkerProcess) -> None:
    sink = start(partitions=2, **avro(registry, "BACKWARD", 10_000))
    evolving = Evolving(registry, sink.topic.name)
    worker.request("PUT", f"/connectors/{sink.name}/pause")
    worker.wait_states(sink.name, "PAUSED")
    partitions = [
        [number // 500 % 3 + 1 for number in range(40_000)],
        [number // 7 % 2 + 2 for number in range(40_000)],
    ]
    for partition, versions in enumerate(partitions):
        sink.topic.send(evolving.records(versions), partition)
    worker.request("PUT", f"/connectors/{sink.name}/resume")
    check(sink, partitions, "BACKWARD", 10_000)
    assert f"{sink.name}-0: a job moved" in worker.log()


@pytest.mark.parametrize("gone", ["", "schema.avro", "token and schema"])
def test_an_older_record_after_a_restart_goes_on_with_the_newest_files_schema(
    gone: str, start: Callable[..., Sink], registry: str, worker: WorkerProcess
) -> None:
    sink = start(**avro(registry, "BACKWARD", 2))
    evolving = Evolving(registry, sink.topic.name)
    versions = [1, 1, 2, 2, 1, 1]
    sink.topic.send(evolving.records(versions[:4]))
    check(sink, [versions[:4]], "BACKWARD", 2)
    worker.request("PUT", f"/connectors/{sink.name}/stop")
    eventually(lambda: worker.get(f"/connectors/{sink.name}/status")["connector"]["state"] == "STOPPED", 60)
    folder = sink.folder / "topics" / "+tmp" / sink.topic.name / "0"
    assert (folder / "schema.avro").exists()
    if gone == "schema.avro":
        (folder / gone).unlink()
    elif gone:
        shutil.rmtree(folder)
    worker.request("PUT", f"/connectors/{sink.name}/resume")
    sink.topic.send(evolving.records(versions[4:], 4))
    check(sink, [versions], "BACKWARD", 2)


def test_an_incompatible_schema_has_a_file_of_its_own(start: Callable[..., Sink], registry: str) -> None:
    sink = start(**avro(registry, "BACKWARD", 2))
    evolving = Evolving(registry, sink.topic.name, ([ID], [{"name": "id", "type": "string"}]))
    values = [(1, 0), (2, "one"), (1, 2), (1, 3)]
    sink.topic.send([evolving.record(version, {"id": value}) for version, value in values])
    name = "partition=0/{{0}}+0+{:010d}+{:010d}.avro"
    files = sink.wait_files(*(name.format(*ends) for ends in ((0, 0), (1, 1), (2, 3))))
    assert [read(path)[1] for path in files.values()] == [[{"id": 0}], [{"id": "one"}], [{"id": 2}, {"id": 3}]]


def without_country(number: int) -> bytes:
    schema = {**STRUCT, "fields": [{"field": "id", "type": "int32", "optional": False}]}
    return json.dumps({"schema": schema, "payload": {"id": number}}).encode()


def test_a_change_without_versions_fails_the_task(start: Callable[..., Sink]) -> None:
    sink = start(schema_compatibility="BACKWARD")
    sink.topic.send([order(0), without_country(1)])
    sink.worker.wait_states(sink.name, "FAILED")
    assert "Schema version required for BACKWARD compatibility" in sink.worker.trace(sink.name)
    assert sink.files() == {}


def test_a_change_without_versions_is_a_dead_letter_where_errors_are_tolerated(
    start: Callable[..., Sink], broker: str
) -> None:
    letters = Topic(broker, "letters")
    sink = start(
        schema_compatibility="BACKWARD",
        errors_tolerance="all",
        errors_deadletterqueue_topic_name=letters.name,
        errors_deadletterqueue_topic_replication_factor="1",
    )
    sink.topic.send([order(0), without_country(1), order(2), order(3)])
    (path,) = sink.wait_files("partition=0/{0}+0+0000000000+0000000003.parquet").values()
    assert pq.ParquetFile(path).read()["id"].to_pylist() == [0, 2, 3]
    eventually(lambda: letters.values() == [without_country(1)], 60)


def test_five_hundred_directories_at_once(start: Callable[..., Sink]) -> None:
    sink = start(flush_size="2000", partitioner_class="FieldPartitioner", partition_field_name="country")
    sink.topic.send([order(number, f"c{number % 500}") for number in range(2000)])
    files = sink.wait_files(*(f"country=c{one}/{{0}}+0+{one:010d}+{one + 1500:010d}.parquet" for one in range(500)))
    for one in range(500):
        path = files[f"country=c{one}/{sink.topic.name}+0+{one:010d}+{one + 1500:010d}.parquet"]
        assert pq.ParquetFile(path).read()["id"].to_pylist() == [one, one + 500, one + 1000, one + 1500]


def test_a_routed_topic_has_a_folder_of_its_own(start: Callable[..., Sink]) -> None:
    sink = start(
        transforms="route",
        transforms_route_type="org.apache.kafka.connect.transforms.RegexRouter",
        transforms_route_regex="(.*)",
        transforms_route_replacement="routed-$1",
    )
    sink.topic.send([order(number) for number in range(3)])
    path = (
        sink.folder / f"topics/routed-{sink.topic.name}/partition=0/{sink.topic.name}+0+0000000000+0000000002.parquet"
    )
    eventually(path.exists, 60, lambda: f"{[*sink.folder.rglob('*')]}; {sink.worker.states(sink.name)}")
    assert pq.ParquetFile(path).read()["id"].to_pylist() == [0, 1, 2]
    assert sink.files() == {}
