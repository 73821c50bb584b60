"""Kafka's own tests of standalone workers, in our words: one reads a file, one writes it, both are restarted."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

from headrace.plugins.interop.jvm.jars import fetch
from tests.integration.kafkatest_worker import SCRIPTS, TOOLS, WITHIN_S, KafkatestStandalone, environment
from tests.integration.worker_process import Topic, connector_file, eventually, lines_of

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
TEXT: Final = "org.apache.kafka.connect.storage.StringConverter"
SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
FIRST: Final = [b"foo", b"bar", b"baz"]
SECOND: Final = [b"razz", b"ma", b"tazz"]


class Pipe:
    """Two workers of one folder, which has the names of topics in a file of its own."""

    def __init__(self, folder: Path, topic: Topic) -> None:
        self.folder = folder
        self.topic = topic
        (folder / "external.properties").write_text(f"topic.external={topic.name}\n")
        self.placeholder = f"${{file:{folder / 'external.properties'}:topic.external}}"

    @contextmanager
    def running(self, source: dict[str, str], *sinks: dict[str, str], schemas: str = "true") -> Iterator[None]:
        """Both workers answer; the source reads `in`, which is not there yet, and each sink writes what it names."""
        reads = self._file("in", SOURCE, file=str(self.folder / "in"), topic=self.placeholder, **source)
        writes = [self._file(f"out{n}", SINK, topics=self.placeholder, **one) for n, one in enumerate(sinks)]
        with (
            self._worker("source", [reads], schemas) as self.source,
            self._worker("sink", writes, schemas) as self.sink,
        ):
            self._wait()
            yield

    def restart(self) -> None:
        """Both workers were stopped and started, one after the other."""
        for worker in (self.source, self.sink):
            assert worker.stop() == 0
            worker.start()
        self._wait()

    def write(self, *lines: bytes) -> None:
        """These lines are added to the input."""
        with open(self.folder / "in", "ab") as file:
            file.write(b"".join(line + b"\n" for line in lines))

    def _wait(self) -> None:
        for worker in (self.source, self.sink):
            eventually(lambda w=worker: isinstance(w._try_get("/connectors"), list), WITHIN_S, worker._last_words)

    def _worker(self, name: str, connectors: list[Path], schemas: str) -> KafkatestStandalone:
        settings = {
            "config.providers": "file",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            **{f"{part}.converter.schemas.enable": schemas for part in ("key", "value")},
            "plugin.discovery": "service_load",
            "request.timeout.ms": "30000",
        }
        return KafkatestStandalone(self.folder / name, self.topic.bootstrap, connectors, settings)

    def _file(self, name: str, connector_class: str, **config: str) -> Path:
        path = connector_file(self.folder, name, connector_class=connector_class, errors_log_enable="true")
        with open(path, "a") as file:
            file.writelines(f"{key}={value}\n" for key, value in config.items())
        return path


@pytest.mark.parametrize(
    ("converter", "schemas"), [(None, "true"), (None, "false"), (TEXT, "true")], ids=["schemas", "none", "text"]
)
def test_a_file_is_copied_over_restarts(broker: str, tmp_path: Path, converter: str | None, schemas: str) -> None:
    named = {f"{part}.converter": converter for part in ("key", "value")} if converter else {}
    # Not for a converter that the connector names, and so for none.
    idle = {f"{part}.converter.schemas.enable": "True" for part in ("key", "value")}
    pipe, out = Pipe(tmp_path, Topic(broker, "standalone")), tmp_path / "out"
    with pipe.running(named, {"file": str(out), **named, **idle}, schemas=schemas):
        pipe.write(*FIRST)
        eventually(lambda: lines_of(out) == FIRST, WITHIN_S, pipe.sink._last_words)
        pipe.restart()
        pipe.write(*SECOND)
        eventually(lambda: lines_of(out) == FIRST + SECOND, WITHIN_S, pipe.sink._last_words)
        assert pipe.source.stop() == pipe.sink.stop() == 0
    assert out.read_bytes() == (tmp_path / "in").read_bytes()
    found = pipe.topic.values()
    if converter is None:
        schema = {"type": "string", "optional": False}
        texts = [line.decode() for line in FIRST + SECOND]
        wanted = [{"schema": schema, "payload": text} if schemas == "true" else text for text in texts]
        assert [json.loads(value) for value in found] == wanted
    else:
        assert found == FIRST + SECOND


def test_bad_records_are_passed_over_or_end_the_task(broker: str, tmp_path: Path) -> None:
    good = [b'{"some_key":%d}' % n for n in range(0, 1000, 2)]
    bad = [b'{"some_key:%d}' % n for n in range(1, 1000, 2)]
    sinks, letters = [], []
    for tolerance in ("all", "none"):
        letters.append(Topic(broker, f"letters-{tolerance}"))
        config = {f"{part}.converter": JSON for part in ("key", "value")}
        config |= {f"{part}.converter.schemas.enable": "False" for part in ("key", "value")}
        config |= {"errors.tolerance": tolerance, "errors.log.include.messages": "true"}
        config |= {"errors.deadletterqueue.topic.name": letters[-1].name, "file": str(tmp_path / tolerance)}
        sinks.append({**config, "errors.deadletterqueue.topic.replication.factor": "1"})
    pipe = Pipe(tmp_path, Topic(broker, "half-bad"))
    with pipe.running({f"{part}.converter": TEXT for part in ("key", "value")}, *sinks):
        pipe.write(*(line for pair in zip(good, bad, strict=True) for line in pair))
        # Where Apache writes what Java prints of a map: `{some_key=0}`.
        eventually(lambda: lines_of(tmp_path / "all") == good, WITHIN_S, pipe.sink._last_words)
        eventually(lambda: letters[0].end() == len(bad), WITHIN_S, pipe.sink._last_words)
        pipe.sink.wait_states("out1", "FAILED", within_s=WITHIN_S)
        assert letters[0].values() == bad
        assert letters[1].values() == bad[:1]
        assert lines_of(tmp_path / "none") in ([], good[:1])


@pytest.mark.parametrize("mode", ["only_scan", "hybrid_warn", "hybrid_fail", "service_load"])
@pytest.mark.parametrize("dry", [True, False], ids=["dry", "synced"])
def test_plugins_without_manifests(broker: str, tmp_path: Path, mode: str, dry: bool) -> None:
    folder = tmp_path / "plugins" / "tools"
    folder.mkdir(parents=True)
    (jar,) = (one for one in fetch("kafka-test-plugins") if one.name.startswith("connect-test-plugins-"))
    with ZipFile(jar) as given, ZipFile(folder / "old.jar", "w") as made:
        for name in given.namelist():
            if not name.startswith("META-INF/services/"):
                made.writestr(name, given.read(name))
    command = ["sync-manifests", *(["--dry-run"] if dry else []), "--plugin-path", str(tmp_path / "plugins")]
    subprocess.run([SCRIPTS / "connect-plugin-path.sh", *command], env=environment(), check=True, timeout=WITHIN_S)
    settings = {"plugin.path": str(tmp_path / "plugins"), "plugin.discovery": mode}
    with KafkatestStandalone(tmp_path / "w", broker, settings=settings) as worker:
        if mode == "hybrid_fail" and dry:
            assert worker.process.wait(WITHIN_S) == 3
            assert "Plugins without manifests" in worker.log()
            return
        eventually(lambda: isinstance(worker._try_get("/connectors"), list), WITHIN_S, worker._last_words)
        found = {one["class"] for one in worker.get("/connector-plugins")}
        assert (f"{TOOLS}.VerifiableSourceConnector" in found) == (mode != "service_load" or not dry)
        assert {SOURCE, SINK} <= found, "Headrace's own are always there"
