"""The image, built and run: `make test-image`, as root, with buildah and debootstrap.

HEADRACE_TEST_IMAGE names an image of buildah's storage that is there already.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headrace.worker.embedded.kafka_broker import Broker
from headrace.worker.machine.processes import free_port
from tests.image.base_image import ROOT, make_base
from tests.image.container import Container, can_build
from tests.integration.worker_process import eventually

pytestmark = [
    pytest.mark.image,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not can_build(), reason="needs root, buildah, unshare, nsenter and chroot"),
]

MOST_BYTES = 1_250_000_000
JSON = "org.apache.kafka.connect.json.JsonConverter"
START_S = 300


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    if given := os.environ.get("HEADRACE_TEST_IMAGE"):
        return given
    make_base(tmp_path_factory.mktemp("base"))
    env = {**os.environ, "BUILDAH_ISOLATION": os.environ.get("BUILDAH_ISOLATION", "chroot")}
    build = ["buildah", "bud", "--layers", "--format", "docker", "--pull-never", "--tag", "headrace-test", "."]
    subprocess.run(build, cwd=ROOT, env=env, check=True, stdout=sys.stderr)
    return "localhost/headrace-test"


@pytest.fixture
def container(image: str, tmp_path: Path) -> Iterator[Container]:
    made = Container(image, tmp_path / "shared")
    yield made
    made.remove()


def worker_env(broker: str, port: int) -> dict[str, str]:
    """The properties of every worker here."""
    return {
        "CONNECT_BOOTSTRAP_SERVERS": broker,
        "CONNECT_LISTENERS": f"http://127.0.0.1:{port}",
        "CONNECT_KEY_CONVERTER": JSON,
        "CONNECT_VALUE_CONVERTER": JSON,
        "CONNECT_OFFSET_FLUSH_INTERVAL_MS": "1000",
    }


def pipe(container: Container) -> dict[str, dict[str, str]]:
    """A file to a topic, and the topic to a file, by their names."""
    (container.shared / "in.txt").touch()
    one_task = {"tasks.max": "1", "key.converter": "org.apache.kafka.connect.storage.StringConverter"}
    one_task |= {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    topic = f"lines-{free_port()}"
    return {
        "in": {**one_task, "connector.class": "FileStreamSource", "file": "/mnt/in.txt", "topic": topic},
        "out": {**one_task, "connector.class": "FileStreamSink", "file": "/mnt/out.txt", "topics": topic},
    }


def write(container: Container, *lines: str) -> None:
    with (container.shared / "in.txt").open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def written(container: Container) -> list[str]:
    out = container.shared / "out.txt"
    return out.read_text().split() if out.exists() else []


def is_healthy(container: Container) -> bool:
    """True if the image's health check says so."""
    return container.execute(["headrace", "health", "--running"]).returncode == 0


def test_doctor_finds_all_that_a_worker_needs(container: Container) -> None:
    container.run(["headrace", "doctor"])


def test_it_is_small_and_says_what_it_is_made_of(container: Container) -> None:
    seen: dict[tuple[int, int], int] = {}
    for folder, _, files in os.walk(container.root):
        for file in files:
            state = Path(folder, file).lstat()
            seen[state.st_dev, state.st_ino] = state.st_size
    assert sum(seen.values()) < MOST_BYTES
    sbom = container.root / "opt/headrace/sbom"
    purls = {one["purl"].split("@")[0] for one in json.loads((sbom / "bom.json").read_text())["components"]}
    assert {"pkg:pypi/pyspark", "pkg:pypi/pyarrow", "pkg:deb/debian/bash", "pkg:generic/openjdk"} <= purls
    assert {"pkg:maven/org.apache.spark/spark-core_2.13", "pkg:maven/org.postgresql/postgresql"} <= purls
    assert any((sbom / "licenses").glob("pyarrow-*/LICENSE*"))
    assert any((container.root / "opt/headrace/cache").rglob("classes-*.jsa"))


def test_alone_it_carries_a_file_and_goes_on_after_a_kill(container: Container, broker: str) -> None:
    env = worker_env(broker, free_port()) | {"CONNECT_OFFSET_STORAGE_FILE_FILENAME": "/mnt/offsets"}
    for name, config in pipe(container).items():
        (container.shared / f"{name}.json").write_text(json.dumps({"name": name, "config": config}))
    write(container, "1", "2")
    arguments = ["standalone", "/mnt/in.json", "/mnt/out.json"]
    container.start(arguments, env)
    eventually(lambda: written(container) == ["1", "2"], START_S, container.log)
    eventually(lambda: is_healthy(container), 60, container.log)
    container.kill()
    write(container, "3")
    container.start(arguments, env)
    eventually(lambda: "3" in written(container), START_S, container.log)
    container.stop()
    assert set(written(container)) == {"1", "2", "3"}
    assert "UnknownHostException" not in container.log()


def test_in_a_group_it_drains_and_stops(container: Container, broker: str) -> None:
    port, group = free_port(), f"image-{free_port()}"
    env = worker_env(broker, port) | {
        "CONNECT_GROUP_ID": group,
        **{f"CONNECT_{kind}_STORAGE_TOPIC": f"{group}-{kind.lower()}" for kind in ("CONFIG", "OFFSET", "STATUS")},
        **{f"CONNECT_{kind}_STORAGE_REPLICATION_FACTOR": "1" for kind in ("CONFIG", "OFFSET", "STATUS")},
        "CONNECT_REST_ADVERTISED_HOST_NAME": "127.0.0.1",
    }
    container.start(["distributed"], env)
    eventually(lambda: is_healthy(container), START_S, container.log)
    rest = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
    for name, config in pipe(container).items():
        rest.post("/connectors", json={"name": name, "config": config}).raise_for_status()
    write(container, "1", "2")
    eventually(lambda: written(container) == ["1", "2"], START_S, container.log)
    rest.put("/admin/drain").raise_for_status()
    container.stop()
    assert "UnknownHostException" not in container.log()


def test_a_mirror_is_healthy_with_rest_and_without(container: Container, broker: str, second_broker: str) -> None:
    clusters = f"clusters=a,b\na.bootstrap.servers={broker}\nb.bootstrap.servers={second_broker}\na->b.enabled=true\n"
    for more in ("", f"listeners=http://127.0.0.1:{free_port()}\n"):
        file = container.shared / "mm2.properties"
        file.write_text(f"{clusters}a->b.topics=nothing\nreplication.factor=1\n{more}")
        container.entrypoint = ["tini", "--", "connect-mirror-maker"]
        container.start(["/mnt/mm2.properties"], {})
        eventually(lambda: is_healthy(container), START_S, container.log)
        container.stop()


def test_without_a_place_for_temporary_files_it_says_so(container: Container, broker_process: Broker) -> None:
    container.start(["standalone"], worker_env(broker_process.bootstrap_servers, free_port()) | {"TMPDIR": "/opt"})
    eventually(lambda: "TMPDIR" in container.log(), START_S, container.log)
