"""`headrace plugins install` with the real Ivy and Maven Central: a scan finds what it installed, a worker runs it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import distributions
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.config.connector.plugin_versions import is_within
from headrace.config.plugin_path import DiscoveryMode, scan
from headrace.worker.cli.commands import app
from headrace.worker.cli.plugin_install import install, jars_checksum
from headrace.worker.cli.plugin_lock import LOCK, read
from headrace.worker.cli.plugin_path import run
from headrace.worker.machine.maven import Coordinates, UnknownArtifactError
from tests.integration.java_plugins import TEXT, messages
from tests.integration.worker_process import Topic, WorkerProcess, eventually

pytestmark = pytest.mark.long

DEBEZIUM = "io.debezium:debezium-connector-postgres:3.5.0.Final"
SCRIPTING = ("io.debezium:debezium-scripting:3.5.0.Final", "org.apache.groovy:groovy-jsr223:4.0.24")
CAMEL = "org.apache.camel.kafkaconnector:camel-kafka-connector:0.11.0"
COMPONENTS = ("org.apache.camel:camel-timer:3.11.1", "org.apache.camel:camel-file:3.11.1")
RENAMING = "com.github.jcustenborder.kafka.connect:kafka-connect-transform-common:0.1.0.14"
CAMELS = "org.apache.camel.kafkaconnector"


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for `plugin.path`, with connectors and transforms of several publishers."""
    folder = tmp_path_factory.mktemp("installed")
    wanted = (
        (DEBEZIUM, *SCRIPTING),
        (CAMEL, *COMPONENTS),
        (RENAMING,),
        ("org.apache.kafka:connect-file:4.3.1",),
        ("org.mongodb.kafka:mongo-kafka-connect:1.13.0",),
    )

    def installed(artifacts: Sequence[str]) -> Path:
        artifact, *beside = map(Coordinates.parse, artifacts)
        plugin, new = install(artifact, folder, beside)
        assert new
        return plugin.folder

    with ThreadPoolExecutor(2) as pool:
        for plugin in pool.map(installed, wanted):
            assert not [jar for jar in plugin.rglob("*.jar") if jar.name.startswith(("kafka-clients", "connect-api"))]
    return folder


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.spark
def test_connectors_and_transforms_of_several_publishers_run(plugin_path: Path, broker: str, tmp_path: Path) -> None:
    lines, ticks, out = Topic(broker, "lines"), Topic(broker, "ticks"), tmp_path / "out"
    (tmp_path / "in.txt").write_text("keep 1\ndrop 2\nkeep 3\n")
    with WorkerProcess(tmp_path / "worker", broker, settings={"plugin.path": str(plugin_path)}) as worker:
        worker.wait_ready(180)
        worker.create(
            "lines",
            **{
                "connector.class": "FileStreamSource",
                "file": str(tmp_path / "in.txt"),
                "topic": lines.name,
                "transforms": "keep,hoist,case",
                "transforms.keep.type": "io.debezium.transforms.Filter",
                "transforms.keep.language": "jsr223.groovy",
                "transforms.keep.condition": "value.startsWith('keep')",
                "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
                "transforms.hoist.field": "the_line",
                "transforms.case.type": "com.github.jcustenborder.kafka.connect.transform.common.ChangeCase$Value",
                "transforms.case.from": "LOWER_UNDERSCORE",
                "transforms.case.to": "UPPER_CAMEL",
            },
        )
        kept = [message.value() or b"" for message in messages(lines, 2)]
        assert [json.loads(value)["payload"] for value in kept] == [{"TheLine": "keep 1"}, {"TheLine": "keep 3"}]
        worker.create(
            "ticks",
            connector_class=f"{CAMELS}.CamelSourceConnector",
            topics=ticks.name,
            camel_source_url="timer:tick?period=20&repeatCount=5",
            **TEXT,
        )
        ticked = messages(ticks, 5)
        assert [message.value() for message in ticked] == [None] * 5
        counted = [dict(message.headers() or ()) for message in ticked]
        assert [headers["CamelProperty.CamelTimerCounter"] for headers in counted] == [b"1", b"2", b"3", b"4", b"5"]
        worker.create(
            "out",
            connector_class=f"{CAMELS}.CamelSinkConnector",
            topics=lines.name,
            camel_sink_url=f"file:{out}?fileName=all.txt&fileExist=Append",
            **TEXT,
        )
        written = b"".join(kept)
        eventually(lambda: (file := out / "all.txt").exists() and file.read_bytes() == written, 60, worker.log)


def test_archives_and_jars_are_found_by_class_and_once_synced_by_manifest(plugin_path: Path) -> None:
    found = scan([str(plugin_path)], DiscoveryMode.ONLY_SCAN)
    by_manifest = set(scan([str(plugin_path)], DiscoveryMode.SERVICE_LOAD))
    assert {"camel-kafka-connector-0.11.0", "mongo-kafka-connect-1.13.0"} <= {
        one.location.name for one in set(found) - by_manifest
    }
    assert run(["sync-manifests", "--plugin-path", str(plugin_path)]) == 0
    assert [(one.kind, one.class_name) for one in scan([str(plugin_path)], DiscoveryMode.SERVICE_LOAD)] == [
        (one.kind, one.class_name) for one in found
    ]
    named = {(plugin.kind, plugin.class_name, plugin.version) for plugin in found}
    assert {
        ("source", "io.debezium.connector.postgresql.PostgresConnector", "3.5.0.Final"),
        ("transformation", "io.debezium.transforms.ExtractNewRecordState", "3.5.0.Final"),
        ("transformation", "io.debezium.transforms.Filter", "3.5.0.Final"),
        ("source", "org.apache.kafka.connect.file.FileStreamSourceConnector", "4.3.1"),
        ("sink", "com.mongodb.kafka.connect.MongoSinkConnector", "1.13.0"),
        ("sink", f"{CAMELS}.CamelSinkConnector", "0.11.0"),
    } <= named


def test_an_unknown_artifact_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnknownArtifactError, match=r"has no org\.apache\.kafka:connect-file:0\.0\.1"):
        install(Coordinates.parse("org.apache.kafka:connect-file:0.0.1"), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.kafka
@pytest.mark.spark
def test_a_plugin_of_a_range_runs_and_comes_back_from_the_lock_file(broker: str, tmp_path: Path) -> None:
    path, again = tmp_path / "path", tmp_path / "again"
    wanted = "com.github.jcustenborder.kafka.connect:kafka-connect-transform-common:[0.1.0.10,0.1.0.14)"
    asked = CliRunner().invoke(app, ["plugins", "install", wanted, "--plugin-path", str(path)])
    assert asked.exit_code == 0, asked.output
    (locked,) = read(path)
    assert (locked.asked, locked.version, is_within("[0.1.0.10,0.1.0.14)", locked.version)) == (
        *(wanted, "0.1.0.13"),
        True,
    )
    again.mkdir()
    (again / LOCK).write_bytes((path / LOCK).read_bytes())
    asked = CliRunner().invoke(app, ["plugins", "install", "--plugin-path", str(again)])
    assert asked.exit_code == 0, asked.output
    assert jars_checksum(again / locked.name) == locked.checksum
    lines = Topic(broker, "ranged")
    (tmp_path / "in.txt").write_text("one\n")
    with WorkerProcess(tmp_path / "worker", broker, settings={"plugin.path": str(again)}) as worker:
        worker.wait_ready(180)
        worker.create(
            "ranged",
            **{
                "connector.class": "FileStreamSource",
                "file": str(tmp_path / "in.txt"),
                "topic": lines.name,
                "transforms": "hoist,case",
                "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
                "transforms.hoist.field": "the_line",
                "transforms.case.type": "com.github.jcustenborder.kafka.connect.transform.common.ChangeCase$Value",
                "transforms.case.from": "LOWER_UNDERSCORE",
                "transforms.case.to": "UPPER_CAMEL",
            },
        )
        (message,) = messages(lines, 1)
        assert json.loads(message.value() or b"")["payload"] == {"TheLine": "one"}


def run_plugins(path: Path, command: str, *what: str) -> tuple[int, str]:
    asked = CliRunner().invoke(app, ["plugins", command, *what, "--plugin-path", str(path)])
    return asked.exit_code, asked.output


def locked_alike(path: Path, name: str, before: str = "", after: str = "") -> Path:
    """A folder that has only the lock file of another, with one text exchanged."""
    folder = path.parent / name
    folder.mkdir()
    (folder / LOCK).write_text(
        (path / LOCK).read_text().replace(before, after) if before else (path / LOCK).read_text()
    )
    return folder


@pytest.mark.soak
def test_a_tap_from_pypi_comes_back_from_the_lock_file_with_the_same_packages(tmp_path: Path) -> None:
    path = tmp_path / "path"
    code, told = run_plugins(path, "install", "tap-exchangeratesapi")
    assert code == 0, told
    (locked,) = read(path)
    assert all(" --hash=sha256:" in line for line in locked.packages)
    again = locked_alike(path, "again")
    code, told = run_plugins(again, "install")
    assert code == 0, told
    assert packages_of(again / locked.name) == packages_of(path / locked.name) >= {"singer-python", locked.name}
    altered = locked_alike(path, "altered", "requests==2.21.0 --hash=sha256:7", "requests==2.21.0 --hash=sha256:8")
    code, told = run_plugins(altered, "install")
    assert (code, [one.name for one in altered.iterdir()]) == (1, [LOCK])
    assert "the sha256 of requests==2.21.0 is 7bf2a778" in told


def packages_of(folder: Path) -> set[str]:
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    return {str(one.metadata["Name"]) for one in distributions(path=[str(packages)])}


@pytest.mark.soak
def test_an_upgrade_brings_the_newest_of_the_range_and_takes_the_older_away(tmp_path: Path) -> None:
    path = tmp_path / "path"
    published = "com.github.jcustenborder.kafka.connect:kafka-connect-transform-common"
    assert run_plugins(path, "install", f"{published}:[0.1.0.10,0.1.0.13)")[0] == 0
    (path / LOCK).write_text((path / LOCK).read_text().replace("0.1.0.13)", "0.1.0.14)"))  # as if it came out now
    code, told = run_plugins(path, "upgrade")
    assert (code, "0.1.0.12 was replaced by kafka-connect-transform-common-0.1.0.13" in told) == (0, True)
    (locked,) = read(path)
    assert sorted(one.name for one in path.iterdir()) == [LOCK, locked.name]
    assert "is the latest of" in run_plugins(path, "upgrade")[1]
