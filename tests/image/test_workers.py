"""Workers of the image as they are operated: kills, drains, mirrors, odd users, little memory.

The image is that of HEADRACE_TEST_IMAGE, or built here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.worker.machine.processes import free_port
from tests.compat.apache_worker import ApacheWorker
from tests.image import limits
from tests.image.container import ARBITRARY_USER, Container, can_build
from tests.image.image_worker import START_S, ImageWorker, file_pipe, is_healthy, of_cluster, write, written
from tests.integration.cluster_worker import new_cluster
from tests.integration.mixed_cluster import Pipe, check_well, java_worker, move, statuses
from tests.integration.worker_process import eventually

pytestmark = [
    pytest.mark.image,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not can_build(), reason="needs root, buildah, unshare, nsenter and chroot"),
]

LITTLE_BYTES = 1 << 30
SINGLE = "".join(f"{kind}.storage.replication.factor=1\n" for kind in ("config", "offset", "status"))
"""For clusters of one broker."""


@pytest.fixture
def little(image: str, tmp_path: Path) -> Iterator[tuple[Container, limits.Limits]]:
    """A container of an unnamed user, with 1 GB of memory and one core."""
    if not limits.are_there():
        pytest.skip("needs control groups that may be written")
    group = limits.Limits(LITTLE_BYTES, 1)
    made = Container(image, tmp_path / "shared", ARBITRARY_USER, group)
    yield made, group
    made.remove()
    group.remove()


def started(worker: ImageWorker) -> None:
    """A standalone worker carries its first lines."""
    container = worker.container
    for name, config in file_pipe(container).items():
        (container.shared / f"{name}.json").write_text(json.dumps({"name": name, "config": config}))
    write(container, "1", "2")
    worker.start("standalone", "/mnt/in.json", "/mnt/out.json")
    eventually(lambda: written(container) == ["1", "2"], START_S, container.log)


def wait_owned(java: ApacheWorker, container: Container, workers: set[str]) -> None:
    """All that runs, runs on these workers, and on each of them."""
    eventually(
        lambda: {one["worker_id"] if one["state"] == "RUNNING" else "" for one in statuses(java).values()} == workers,
        START_S,
        lambda: (statuses(java), container.log()),
    )


def test_alone_it_carries_a_file_and_goes_on_after_a_kill(container: Container, broker: str) -> None:
    worker = ImageWorker(container, broker, CONNECT_OFFSET_STORAGE_FILE_FILENAME="/mnt/offsets")
    started(worker)
    eventually(worker.is_healthy, 60, container.log)
    container.kill()
    write(container, "3")
    worker.start("standalone", "/mnt/in.json", "/mnt/out.json")
    eventually(lambda: "3" in written(container), START_S, container.log)
    container.stop()
    assert set(written(container)) == {"1", "2", "3"}
    assert "UnknownHostException" not in container.log()


def test_in_a_group_with_a_java_worker_it_takes_its_part_and_drains(
    container: Container, broker: str, tmp_path: Path
) -> None:
    cluster = new_cluster()
    ours = ImageWorker(container, broker, **of_cluster(cluster))
    ours.start("distributed")
    pipe = Pipe("lines", broker, container.shared, tasks=2)
    out = container.shared / "lines.out"
    out.touch()
    out.chmod(0o666)
    with java_worker(tmp_path / "java", broker, cluster) as java:
        java.wait_ready()
        eventually(ours.is_healthy, START_S, container.log)
        pipe.create(java)
        wait_owned(java, container, {java.worker_id, ours.worker_id})
        move([pipe], "both")
        ours.put("/admin/drain")
        wait_owned(java, container, {java.worker_id})
        move([pipe], "Java alone")
        container.stop()
        check_well(java)
    assert "UnknownHostException" not in container.log()


@pytest.mark.parametrize("user", [1001, ARBITRARY_USER])
def test_a_mirror_is_healthy_with_rest_and_without(
    image: str, tmp_path: Path, broker: str, second_broker: str, user: int
) -> None:
    container = Container(image, tmp_path / "shared", user)
    clusters = f"clusters=a,b\na.bootstrap.servers={broker}\nb.bootstrap.servers={second_broker}\na->b.enabled=true\n"
    listeners = "" if user == ARBITRARY_USER else f"listeners=http://127.0.0.1:{free_port()}\n"
    file = container.shared / "mm2.properties"
    file.write_text(f"{clusters}a->b.topics=nothing\nreplication.factor=1\n{SINGLE}{listeners}")
    container.entrypoint = ["tini", "--", "connect-mirror-maker"]
    try:
        container.start(["/mnt/mm2.properties"], {})
        eventually(lambda: is_healthy(container), START_S, container.log)
        container.stop()
    finally:
        container.remove()


def test_it_starts_with_little_memory_and_one_core(little: tuple[Container, limits.Limits], broker: str) -> None:
    container, group = little
    worker = ImageWorker(container, broker, CONNECT_OFFSET_STORAGE_FILE_FILENAME="/mnt/offsets")
    started(worker)
    eventually(worker.is_healthy, 60, container.log)
    write(container, *map(str, range(3, 100_000)))
    eventually(lambda: len(written(container)) == 99_999, START_S, container.log)
    container.stop()
    assert not group.killed(), f"{group.peak_bytes()} bytes at most\n{container.log()}"
