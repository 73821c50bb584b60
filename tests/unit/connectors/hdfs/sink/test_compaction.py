"""Small files of a partition are merged beside its commits: the time, the directory, and what becomes of failures."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.hdfs.compact_settings import CompactSettings
from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.sink import compaction
from headrace.connectors.hdfs.sink.commit_marker import CommitMarker
from headrace.connectors.hdfs.sink.compaction import Compaction
from headrace.connectors.hdfs.sink.spec import FileSpec
from headrace.connectors.hdfs.sink.task import FileSinkTask
from headrace.connectors.hdfs.stores.local import LocalStore
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.plugins.backoff import Backoff
from headrace.plugins.contracts import TaskContext, TopicPartition
from headrace.plugins.errors import DataError, RetriableError
from headrace.plugins.interop import upkeep
from headrace.plugins.interop.formats.lines import TextFormat
from headrace.plugins.stopping import StopToken
from tests.integration.worker_process import eventually
from tests.unit.connectors.hdfs.sink.test_replacement import Killed
from tests.unit.connectors.hdfs.sink.test_task import rows

P0 = TopicPartition("t", 0)
FOLDER = "topics/t/partition=0"


class Sink:
    """A task without Kafka whose files have ten records each."""

    def __init__(self, tmp_path: Path, **config: str) -> None:
        self.task, self._offset = FileSinkTask(), 0
        settings = {
            "connector.class": "HdfsSink",
            "format.class": "text",
            "topics": "t",
            "store.url": f"file://{tmp_path}/store",
            "flush.size": "10",
            "compact.files": "4",
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        self.task.start(settings, TaskContext("c", 0, StopToken(), {"file.allowed.paths": [str(tmp_path)]}))
        self.store = LocalStore(StoreSettings(settings["store.url"]))
        self.task._spec.layouts.append(None)
        self.task.open([P0])

    def write(self, files: int, directory: int = 0, in_one_commit: bool = False) -> None:
        count = 10 * files if in_one_commit else 10
        for _ in range(10 * files // count):
            writer = self.task.writer("1")
            some = rows(self._offset, self._offset + count - 1)
            place = some.schema.get_field_index("directory")
            writer.write(some.set_column(place, "directory", pa.array([directory] * count, pa.int32())))
            self._offset += count
            self.task.commit([writer.finish()])

    def names(self, folder: str = FOLDER) -> list[str]:
        """Its files as `first-last`."""
        found = (one.path.rpartition("/")[2].split(".")[0].split("+") for one in self.store.entries(folder))
        return sorted(
            (f"{int(first)}-{int(last)}" for _, _, first, last in found), key=lambda one: int(one.split("-")[0])
        )

    def wait(self, *names: str, folder: str = FOLDER) -> None:
        """Until there are just these files, and nothing else is left of a merge."""
        eventually(lambda: (self.names(folder), self.attempts()) == ([*names], []), 60, lambda: self.names(folder))

    def attempts(self) -> list[str]:
        return [one.path for one in self.store.entries("topics/+tmp/t/0") if one.is_folder]

    def values(self, folder: str = FOLDER) -> list[int]:
        found = sorted(one.path for one in self.store.entries(folder))
        return [int(line) for path in found for line in self.store.open(path).read().splitlines()]

    def metric(self, name: str) -> float:
        return next(one.value for one in self.task.samples() if one.name.startswith(f"headrace_compact_{name}"))


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Sink]]:
    monkeypatch.setattr(upkeep, "_BACKOFF", Backoff(0.01, 0.01))
    started: list[Sink] = []

    def start(**config: str) -> Sink:
        started.append(Sink(tmp_path, **config))
        return started[-1]

    yield start
    for one in started:
        one.task.stop()


def test_files_are_merged_once_there_are_too_many(start: Callable[..., Sink]) -> None:
    sink = start()
    sink.write(3)
    sink.wait("0-9", "10-19", "20-29")
    sink.write(1)
    sink.wait("0-39")
    assert sink.values() == list(range(40))
    sink.write(2)
    sink.wait("0-39", "40-49", "50-59")
    assert sink.metric("replaced") == 4


def test_merged_files_are_merged_again_up_to_their_size(start: Callable[..., Sink]) -> None:
    sink = start(compact_size_bytes="100")  # 25 to 50 records
    sink.write(20)
    eventually(lambda: sum(one.size < 100 for one in sink.store.entries(FOLDER)) < 4, 60)
    sink.task.stop()  # within a swap rows are twice
    assert sink.values() == list(range(200))
    assert all(one.size < 200 for one in sink.store.entries(FOLDER))


def test_each_directory_has_its_own(start: Callable[..., Sink]) -> None:
    sink = start()
    for _ in range(4):
        sink.write(1, 1)
        sink.write(1, 2)
    sink.wait("0-69", folder="topics/t/partition=1")
    sink.wait("10-79", folder="topics/t/partition=2")
    assert sink.values("topics/t/partition=1") == [n for n in range(80) if n // 10 % 2 == 0]


def test_a_restart_goes_on_where_it_was(start: Callable[..., Sink]) -> None:
    first = start()
    first.write(4)
    first.wait("0-39")
    first.task.stop()
    second = start()
    assert second.task.recover() == {P0: 40}
    second._offset = 40
    second.write(3)
    second.wait("0-39", "40-69")
    second.store.delete("topics/+tmp/t/0")
    third = start()
    assert third.task.recover() == {P0: 70}, "also by the names alone"


def test_nothing_is_merged_by_default(start: Callable[..., Sink]) -> None:
    sink = start(compact_files="0")
    sink.write(20)
    assert not [one for one in sink.task.samples() if one.name.startswith("headrace_compact")]
    assert len(sink.names()) == 20


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RetriableError("the store is away"), "the store is away"),
        (StoreError("no right to read"), "no right to read"),
        (DataError("it ends too early"), r"'topics/t/partition=0/t\+0\+0000000000\+0000000009.txt' cannot be read"),
        (OSError(28, "No space left on device"), "Make room there"),
        (KeyError("a bug"), "a bug"),
    ],
)
def test_a_failure_is_logged_once_and_rows_go_on(
    start: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch, caplog: Any, error: Exception, said: str
) -> None:
    sink = start()

    def fail(_self: Any, files: Iterator[Any], _local: str) -> None:
        next(files)
        raise error

    with monkeypatch.context() as failing:
        failing.setattr(TextFormat, "merge", fail)
        sink.write(5)
        eventually(lambda: sink.metric("failures") >= 3, 60)
        assert len(sink.names()) == 5
    sink.wait("0-49")
    told = [one.getMessage() for one in caplog.records if "not merged" in one.getMessage()]
    assert len(told) == 1
    assert re.search(said, told[0])


def test_rows_do_not_wait_for_a_merge(start: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch) -> None:
    sink, begun, go_on = start(), threading.Event(), threading.Event()
    real = TextFormat.merge

    def slow(self: TextFormat, files: Any, local: str) -> None:
        begun.set()
        assert go_on.wait(60)
        real(self, files, local)

    monkeypatch.setattr(TextFormat, "merge", slow)
    sink.write(4)
    assert begun.wait(60)
    sink.write(2)
    assert len(sink.names()) == 6
    go_on.set()
    sink.wait("0-39", "40-49", "50-59")


def test_a_task_that_ends_leaves_a_merge_undone(start: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch) -> None:
    sink, begun = start(), threading.Event()

    def endless(_self: TextFormat, _files: Any, _local: str) -> None:
        begun.set()
        while True:
            sink.task._compaction._upkeep.check_open()  # type: ignore[union-attr]

    monkeypatch.setattr(TextFormat, "merge", endless)
    sink.write(4)
    assert begun.wait(60)
    sink.task.stop()
    assert len(sink.names()) == 4
    assert sink.attempts() == []
    assert "compaction" not in {thread.name for thread in threading.enumerate()}


def test_a_task_that_waits_for_the_merge_of_another_ends(start: Callable[..., Sink]) -> None:
    sink = start()
    with compaction._TURN:
        sink.write(4)
        eventually(lambda: sink.metric("due") == 0, 60)
        sink.task.stop()
        assert "compaction" not in {thread.name for thread in threading.enumerate()}
    assert len(sink.names()) == 4


def test_a_task_whose_merge_ends_after_it_closes_the_store_once_more(
    start: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, begun, go_on, closers = start(), threading.Event(), threading.Event(), list[str]()

    def slow(_self: TextFormat, _files: Any, _local: str) -> None:
        begun.set()
        assert go_on.wait(60)

    monkeypatch.setattr(upkeep, "_LAST_S", 0.01)
    monkeypatch.setattr(TextFormat, "merge", slow)
    monkeypatch.setattr(LocalStore, "close", lambda _: closers.append(threading.current_thread().name))
    sink.write(4)
    assert begun.wait(60)
    sink.task.stop()
    go_on.set()
    eventually(lambda: closers[1:] == ["compaction"], 60)


def test_a_commit_that_is_half_way_is_not_merged(start: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch) -> None:
    sink = start(compact_files="2")
    looking, half_way, looked = threading.Event(), threading.Event(), threading.Event()
    real_entries, real_rename = LocalStore.entries, LocalStore.rename

    def entries(self: LocalStore, folder: str) -> list[Any]:
        is_first = folder == FOLDER and threading.current_thread().name == "compaction" and not looked.is_set()
        if is_first:
            looking.set()
            assert half_way.wait(60)
        found = real_entries(self, folder)
        if is_first:
            seen.extend(one.path for one in found)
            looked.set()
        return found

    def rename(self: LocalStore, source: str, target: str) -> bool:
        if target == f"{FOLDER}/t+0+0000000030+0000000039.txt":
            others = [f"{FOLDER}/t+0+00000000{n}0+00000000{n}9.txt" for n in (2, 4)]
            eventually(lambda: all(self.exists(one) for one in others), 60)
            half_way.set()
            assert looked.wait(60)
        return real_rename(self, source, target)

    seen = list[str]()
    monkeypatch.setattr(LocalStore, "entries", entries)
    monkeypatch.setattr(LocalStore, "rename", rename)
    sink.write(2)
    assert looking.wait(60)
    sink.write(3, in_one_commit=True)
    assert len(seen) == 4, "all but the file in the middle"
    sink.wait("0-49")
    assert sink.values() == list(range(50))


def test_a_swap_that_is_interrupted_is_ended_by_the_next_try(
    start: Callable[..., Sink], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, tries = start(), []
    real = LocalStore.delete

    def away(self: LocalStore, path: str) -> None:
        if "0010" in path:
            tries.append(path)
            if len(tries) < 3:
                raise RetriableError("the store is away")
        real(self, path)

    monkeypatch.setattr(LocalStore, "delete", away)
    sink.write(3)
    sink.wait("0-9", "10-19", "20-29")
    sink.write(1)
    sink.wait("0-39")
    sink.write(1)
    sink.wait("0-39", "40-49")


def test_a_partition_that_goes_is_let_alone(start: Callable[..., Sink], caplog: Any) -> None:
    sink = start()
    sink.write(3)
    sink.wait("0-9", "10-19", "20-29")
    marker = sink.task._markers[P0]
    found = [
        compaction.CommittedFile(10 * n, 10 * n + 9, one.path, one.size)
        for n, one in enumerate(sink.store.entries(FOLDER))
    ]
    sink.task.close([P0])
    CommitMarker(sink.store, P0, "other", sink.task._spec.names).take(None)
    assert sink.task._compaction is not None
    with pytest.raises(RetriableError, match="Another task"):
        sink.task._compaction._merge(compaction._PartitionFolder(P0, FOLDER), marker, marker.finish()[0], found)
    assert len(sink.names()) == 3
    assert not caplog.records


def test_owners_that_are_killed_at_random_leave_each_record_in_one_file(start: Callable[..., Sink]) -> None:
    random_, sink = random.Random(1), start(compact_files="0")
    sink.write(0)
    spec = sink.task._spec
    settings, merges = CompactSettings(4, 100_000), 0
    for number in range(150):
        store = Killed(StoreSettings(sink.store.url), random_.randrange(40))
        mine: FileSpec = replace(spec, store=store)
        owner = CommitMarker(store, P0, f"o{number}", mine.names)
        beside = Compaction(mine, settings)
        try:
            at = owner.take(None) or 0
            for first in range(at, at + 20, 10):
                folder = f"topics/t/partition={random_.randrange(2)}"
                path = mine.names.file_in(folder, P0, first, first + 9)
                local = Path(store.url[7:]) / f"local-{first}"
                local.write_bytes(b"".join(b"%d\n" % n for n in range(first, first + 10)))
                store.upload(str(local), f"{owner.staging(f'a{number}')}/{path}")
                owner.commit(first + 10, f"a{number}", [(f"{owner.staging(f'a{number}')}/{path}", path)], first)
                beside._merge_all(compaction._PartitionFolder(P0, folder), owner)
                merges += beside._replaced > 0
        except RetriableError:
            continue
    last = CommitMarker(sink.store, P0, "last", spec.names).take(None) or 0
    assert merges > 10
    assert sorted(sink.values("topics/t/partition=0") + sink.values("topics/t/partition=1")) == list(range(last))
    assert len(sink.store.entries("topics/+tmp/t/0")) == 1
