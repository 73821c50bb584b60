"""A sink of files whose store refuses: it says what, where and what to do, and afterwards each offset is there once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from tests.integration.hdfs_server import HdfsServer
from tests.integration.s3_server import READING, S3Server
from tests.integration.sink_places import S3, Hdfs, Local, Numbers, Place
from tests.integration.worker_process import WorkerProcess, eventually

FLUSH = 3
PARTITIONS = 2
USER = "archive"


class Sink:
    """A sink of a topic of numbers; whatever was sent and is a whole file is there before it is used."""

    def __init__(self, worker: WorkerProcess, broker: str, place: Place, **settings: str) -> None:
        self.worker, self.place = worker, place
        self.numbers = Numbers(broker, place, FLUSH, PARTITIONS, **settings)
        self.name = f"sink-{uuid4().hex[:8]}"
        self._begin = len(worker.log())
        self.numbers.send(FLUSH)
        worker.create(self.name, **self.numbers.config)

    def wait_files(self) -> None:
        """Each number that was sent is in a file, once."""
        wanted = PARTITIONS * self.numbers.sent
        eventually(lambda: self.numbers.count() >= wanted, 60, self._log)
        self.numbers.check()

    def _log(self) -> str:
        return "\n".join(line for line in self.worker.log()[self._begin :].splitlines() if self.name in line)[-3000:]

    def wait_log(self, *words: str) -> None:
        """A line of its log has these words, in this order."""
        wanted = re.compile(rf"{self.name}\b.*{'.*'.join(map(re.escape, words))}")
        eventually(
            lambda: wanted.search(self.worker.log(), self._begin),
            60,
            lambda: f"{wanted} not in {self._log()}",
        )

    def wait_failed(self, *words: str) -> None:
        """Its task has failed, and the status says why with these words, in this order."""
        self.worker.wait_states(self.name, "FAILED")
        assert re.search(".*".join(map(re.escape, words)), self.worker.trace(self.name)), self.worker.trace(self.name)

    def restart(self) -> None:
        """The failed task is restarted, as a user does once the cause is gone."""
        self.worker.request("POST", f"/connectors/{self.name}/tasks/0/restart")


@pytest.fixture
def start(worker: WorkerProcess, broker: str) -> Iterator[Callable[..., Sink]]:
    started: list[Sink] = []

    def start(place: Place, **settings: str) -> Sink:
        started.append(Sink(worker, broker, place, **settings))
        return started[-1]

    yield start
    for one in started:
        worker.request("DELETE", f"/connectors/{one.name}")


@pytest.fixture
def on_hdfs(start: Callable[..., Sink], hdfs_server: HdfsServer) -> list[Sink]:
    """A sink by WebHDFS and one by Hadoop's client, with a file each, whose user is no superuser."""
    places = [Hdfs.by_web(hdfs_server, USER), Hdfs.by_jvm(hdfs_server, USER)]
    for place in places:
        place.client.makedirs(f"/{place.name}")
        place.client.set_owner(f"/{place.name}", USER)
    sinks = [start(place) for place in places]
    for sink in sinks:
        sink.wait_files()
    return sinks


def test_a_name_node_in_safe_mode(on_hdfs: list[Sink], start: Callable[..., Sink], hdfs_server: HdfsServer) -> None:
    hdfs_server.admin("-safemode", "enter")
    try:
        sinks = [*on_hdfs, start(Hdfs.by_web(hdfs_server)), start(Hdfs.by_jvm(hdfs_server))]
        for sink in on_hdfs:
            sink.numbers.send(FLUSH)
        for sink in sinks:
            store = sink.numbers.config["store.url"]
            sink.wait_log("Could not ", store, "safe mode", "-safemode leave", "it is tried again")
            assert sink.worker.states(sink.name) == ["RUNNING"]
    finally:
        hdfs_server.admin("-safemode", "leave")
    for sink in sinks:
        sink.wait_files()


@pytest.mark.long
def test_a_full_quota(on_hdfs: list[Sink], hdfs_server: HdfsServer) -> None:
    folders = [urlpath(sink) for sink in on_hdfs]
    hdfs_server.admin("-setSpaceQuota", "1m", *folders)
    for sink in on_hdfs:
        sink.numbers.send(FLUSH)
        sink.wait_log("tried again: Could not write ", sink.numbers.config["store.url"], "quota", "-setSpaceQuota")
        assert sink.worker.states(sink.name) == ["RUNNING"]
        assert sink.numbers.count() == PARTITIONS * FLUSH
    hdfs_server.admin("-clrSpaceQuota", *folders)
    for sink in on_hdfs:
        sink.wait_files()


@pytest.mark.long
@pytest.mark.parametrize("folder", ["", "partition=1"])
def test_no_rights_on_a_directory_of_hdfs(on_hdfs: list[Sink], hdfs_server: HdfsServer, folder: str) -> None:
    for sink in on_hdfs:
        give(sink, folder, "another")
        sink.numbers.send(FLUSH)
    for sink in on_hdfs:
        store = sink.numbers.config["store.url"]
        sink.wait_failed("Could not ", store, f"user={USER}", "-chown", "hadoop.user", "then restart the task")
        assert sink.numbers.count() < PARTITIONS * sink.numbers.sent
        give(sink, folder, USER)
        sink.restart()
        sink.wait_files()


def give(sink: Sink, folder: str, owner: str) -> None:
    """This directory of a sink's topic, or all of the sink, belongs to a user, with those below."""
    place = sink.place
    assert isinstance(place, Hdfs)
    top = f"/{place.name}/topics/{sink.numbers.topic.name}/{folder}" if folder else f"/{place.name}"
    for found, _, _ in place.client.walk(top):
        place.client.set_owner(found, owner)


def urlpath(sink: Sink) -> str:
    assert isinstance(sink.place, Hdfs)
    return f"/{sink.place.name}"


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own, in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "small", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Nothing can be written there."""
    filler = disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(disk).free))
    try:
        yield
    finally:
        filler.unlink()


def test_a_full_disk(start: Callable[..., Sink], tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        sink = start(Local(disk))
        sink.wait_files()
        with filled(disk):
            sink.numbers.send(FLUSH)
            sink.wait_log("tried again: Could not write ", f"file://{disk}", "No space left", "Make room")
            assert sink.worker.states(sink.name) == ["RUNNING"]
            assert sink.numbers.count() == PARTITIONS * FLUSH
        sink.wait_files()


def test_a_full_disk_of_the_worker(start: Callable[..., Sink], worker: WorkerProcess, tmp_path: Path) -> None:
    with small_disk(worker.folder / f"headrace-files-{os.getuid()}") as disk:
        sink = start(Local(tmp_path))
        sink.wait_files()
        with filled(disk):
            sink.numbers.send(FLUSH)
            sink.wait_log("tried again: Could not write to ", str(worker.folder), "No space left", "TMPDIR")
            assert sink.worker.states(sink.name) == ["RUNNING"]
        sink.wait_files()


def test_a_disk_that_takes_no_writes(start: Callable[..., Sink], tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        sink = start(Local(disk))
        sink.wait_files()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        sink.numbers.send(FLUSH)
        sink.wait_failed("Could not ", f"file://{disk}", "Read-only file system", "then restart the task")
        assert sink.numbers.count() == PARTITIONS * FLUSH
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        sink.restart()
        sink.wait_files()


def test_a_bucket_that_is_missing(start: Callable[..., Sink], s3_server: S3Server) -> None:
    bucket = f"b-{uuid4()}"
    sink = start(S3(s3_server, bucket))
    sink.wait_failed("Could not ", f"s3://{bucket} at {s3_server.endpoint}", "NoSuchBucket", "Create the bucket")
    s3_server.bucket(bucket)
    sink.restart()
    sink.wait_files()


def test_a_bucket_without_rights(start: Callable[..., Sink], s3_server: S3Server) -> None:
    place = S3(s3_server, login=s3_server.reader)
    s3_server.allow_reader("s3:*")
    sink = start(place)
    try:
        sink.wait_files()
        s3_server.allow_reader(*READING)
        sink.numbers.send(FLUSH)
        sink.wait_failed("Could not write ", f"s3://{place.bucket}", "AccessDenied", "s3:PutObject", "restart the task")
        assert sink.numbers.count() == PARTITIONS * FLUSH
        s3_server.allow_reader("s3:*")
        sink.restart()
        sink.wait_files()
    finally:
        s3_server.allow_reader(*READING)
