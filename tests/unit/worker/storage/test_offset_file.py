"""The offset file of a standalone worker: whole at every instant, Apache's taken over, another cluster's refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.worker.storage.offset_file import OffsetFile
from tests.unit.worker.storage.java_offsets import hash_map

PARTITION = {"filename": "test.txt"}
WRITTEN_BY_JAVA = bytes.fromhex(
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f7249000974687265"
    "73686f6c6478703f4000000000000c77080000001000000002757200025b42acf317f8060854e002000078700000002d5b226c6f63616c2d"
    "66696c652d736f75726365222c7b2266696c656e616d65223a22746573742e747874227d5d7571007e00020000000f7b22706f736974696f"
    "6e223a33307d7571007e0002000000195b22676f6e65222c7b2266696c656e616d65223a2261227d5d7078"
)
"""The bytes that `ObjectOutputStream` of Java 21 made of a HashMap with these two entries; the second value is null."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "connect.offsets"


def written(path: Path, position: int = 30) -> OffsetFile:
    offsets = OffsetFile(path)
    offsets.set("c", PARTITION, {"position": position, "line": 3})
    offsets.flush()
    return offsets


def test_what_was_set_and_flushed_is_read_again(path: Path) -> None:
    offsets = OffsetFile(path)
    offsets.set("c", PARTITION, {"position": 30, "line": 3, "_head": None})
    offsets.set("c", {"filename": None}, {"position": None, "line": 7})
    offsets.set('ünï "q"', {"a": 1, "b": [1]}, {"deep": {"x": 1.5}})
    assert not path.exists()
    offsets.flush()
    again = OffsetFile(path)
    assert again.get("c", PARTITION) == {"position": 30, "line": 3, "_head": None}
    assert again.get("c", {"filename": None}) == {"position": None, "line": 7}
    assert again.get('ünï "q"', {"b": [1], "a": 1}) == {"deep": {"x": 1.5}}
    assert [partition for partition, _ in again.of("c")] == [PARTITION, {"filename": None}]
    assert again.get("other", PARTITION) is None
    assert again.of("other") == []


def test_an_offset_of_none_forgets_the_partition(path: Path) -> None:
    offsets = written(path)
    offsets.set("c", PARTITION, None)
    offsets.flush()
    assert OffsetFile(path).of("c") == []


def test_durable_says_what_is_on_disk(path: Path) -> None:
    offsets = OffsetFile(path)
    first = offsets.set("c", PARTITION, {"position": 1})
    assert offsets.durable < first
    offsets.flush()
    assert offsets.durable == first
    second = offsets.set("c", PARTITION, {"position": 2})
    assert offsets.durable < second


def test_what_a_caller_does_with_an_offset_changes_nothing_here(path: Path) -> None:
    offsets = OffsetFile(path)
    mine = {"position": 1}
    offsets.set("c", PARTITION, mine)
    mine["position"] = 2
    got = offsets.get("c", PARTITION)
    assert got == {"position": 1}
    assert isinstance(got, dict)
    got["position"] = 3
    assert offsets.get("c", PARTITION) == {"position": 1}


def test_killed_before_the_rename_the_former_file_is_whole(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = written(path)
    before = path.read_bytes()

    def killed(*_: object) -> None:
        raise SystemExit

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os if step == "fsync" else Path, step, killed)
            offsets.set("c", PARTITION, {"position": 60})
            with pytest.raises(SystemExit):
                offsets.flush()
        assert path.read_bytes() == before
        assert OffsetFile(path).get("c", PARTITION) == {"position": 30, "line": 3}
    offsets.flush()
    assert OffsetFile(path).get("c", PARTITION) == {"position": 60}


def test_the_new_file_is_synced_before_it_takes_the_place_of_the_former(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def noted(step: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            steps.append(step)
            return real(*arguments)

        return call

    monkeypatch.setattr(os, "fsync", noted("fsync", os.fsync))
    monkeypatch.setattr(Path, "replace", noted("replace", Path.replace))
    written(path)
    assert steps == ["fsync", "replace", "fsync"]
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_what_a_killed_worker_left_half_written_is_removed_at_start(path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    left = [path.with_name(f".{path.name}.{pid}.new") for pid in (ended.pid, os.getpid())]
    others = [path.with_name(name) for name in (f".{path.name}.{os.getppid()}.new", f".{path.name}.x.new", ".a.1.new")]
    for file in (*left, *others):
        file.write_bytes(b"{")
    OffsetFile(path)
    assert sorted(path.parent.iterdir()) == sorted(others)


def test_what_could_not_be_written_is_written_with_the_next_flush(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = written(path)
    number = offsets.set("c", PARTITION, {"position": 60})

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            offsets.flush()
    assert offsets.durable < number
    offsets.flush()
    assert offsets.durable == number
    assert OffsetFile(path).get("c", PARTITION) == {"position": 60}


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b'{"cluster": null}',
        b'{"cluster": null, "offsets": [{"connector": "c"}]}',
        b"\x00\xff",
        WRITTEN_BY_JAVA[:100],
        b"\xac\xed\x00\x05t\x00\x05hello",
        hash_map([(b"no json", b"{}")]),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_remedy_and_left_alone(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(ConfigError) as refused:
        OffsetFile(path)
    text = str(refused.value)
    assert str(path) in text
    assert "offset.storage.file.filename" in text
    assert "move it away" in text
    assert path.read_bytes() == data


@pytest.mark.parametrize("data", [None, b""])
def test_no_file_and_an_empty_one_are_no_offsets(path: Path, data: bytes | None) -> None:
    if data is not None:
        path.write_bytes(data)
    assert OffsetFile(path).of("c") == []


def test_the_file_of_apache_is_taken_over_and_kept(path: Path) -> None:
    path.write_bytes(WRITTEN_BY_JAVA)
    offsets = OffsetFile(path)
    assert offsets.get("local-file-source", PARTITION) == {"position": 30}
    assert offsets.of("gone") == []
    assert path.read_bytes() == WRITTEN_BY_JAVA
    offsets.flush()
    assert path.with_name("connect.offsets.apache").read_bytes() == WRITTEN_BY_JAVA
    assert json.loads(path.read_bytes())["offsets"] == [
        {"connector": "local-file-source", "partition": PARTITION, "offset": {"position": 30}}
    ]
    assert OffsetFile(path).get("local-file-source", PARTITION) == {"position": 30}


def test_many_offsets_of_apache_with_any_text(path: Path) -> None:
    entries = [(f'["c",{{"filename":"dätei {n}"}}]'.encode(), f'{{"position":{n}}}'.encode()) for n in range(200)]
    path.write_bytes(hash_map(entries, buckets=512))
    offsets = OffsetFile(path)
    assert [offsets.get("c", {"filename": f"dätei {n}"}) for n in range(200)] == [{"position": n} for n in range(200)]


def test_this_is_how_java_writes_it() -> None:
    entries = [
        (b'["local-file-source",{"filename":"test.txt"}]', b'{"position":30}'),
        (b'["gone",{"filename":"a"}]', None),
    ]
    assert hash_map(entries) == WRITTEN_BY_JAVA


def test_another_cluster_is_refused_until_it_is_accepted_by_its_id(path: Path) -> None:
    offsets = written(path)
    offsets.belongs_to("cluster-1", None)
    offsets.flush()
    for accept in (None, "cluster-1", "cluster-3"):
        with pytest.raises(ConfigError) as refused:
            OffsetFile(path).belongs_to("cluster-2", accept)
        assert "belong to Kafka cluster cluster-1" in str(refused.value)
        assert "cluster.id.accept=cluster-2" in str(refused.value)
    again = OffsetFile(path)
    again.belongs_to("cluster-1", None)
    again.belongs_to("cluster-2", "cluster-2")
    again.flush()
    assert OffsetFile(path).cluster_id == "cluster-2"
    assert OffsetFile(path).get("c", PARTITION) == {"position": 30, "line": 3}
