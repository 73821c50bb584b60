"""Workers as Kafka's own tests start them: Apache's script names, a log4j file, and what plugins print apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from tests.integration.cluster_worker import ClusterWorker
from tests.integration.worker_process import WorkerProcess, eventually

SCRIPTS = Path(__file__).parents[2] / "deploy" / "strimzi" / "bin"
TOOLS = "org.apache.kafka.connect.tools"
STARTS = "Starting connectors and tasks using config offset"
WITHIN_S = 400


class _ByScript(WorkerProcess):
    """The log is in `connect.log`, the rest of the output in `connect.stdout` and `connect.stderr`."""

    def start(self) -> None:
        """The process runs."""
        self.log_file = self.folder / "connect.log"
        log4j = self.folder / "connect-log4j.properties"
        log4j.write_text(f"log4j.rootLogger = INFO, FILE\nlog4j.appender.FILE.File={self.log_file}\n")
        env = {
            **environment(),
            "HEADRACE_TEST_MARK": self._mark,
            "TMPDIR": str(self.folder),
            "KAFKA_LOG4J_OPTS": f"-Dlog4j.configuration=file:{log4j}",
            "KAFKA_OPTS": f"-XX:+HeapDumpOnOutOfMemoryError -XX:HeapDumpPath={self.folder / 'heap.bin'}",
        }
        command = [str(SCRIPTS / f"{self.command}.sh"), str(self.worker_file), *map(str, self.connectors)]
        with open(self.folder / "connect.stdout", "ab") as out, open(self.folder / "connect.stderr", "ab") as err:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=self.folder, env=env
            )

    def stdout(self) -> str:
        """The lines of standard output."""
        return (self.folder / "connect.stdout").read_text(encoding="utf-8")


class KafkatestWorker(_ByScript, ClusterWorker):
    """A worker of a cluster."""

    command: ClassVar = "connect-distributed"
    _read = 0

    def bounce(self, clean: bool = True) -> None:
        """It was stopped, or killed alone, and has begun its work again."""
        before = self.log().count(STARTS)
        if clean:
            assert self.stop() == 0
        else:
            self.kill()
        self.start()
        eventually(lambda: self.log().count(STARTS) > before, WITHIN_S, self._last_words)

    def newly_printed(self) -> Iterator[dict[str, Any]]:
        """Return the lines of JSON that verifiable connectors printed since the last call; others are passed over."""
        with open(self.folder / "connect.stdout", "rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            try:
                found = json.loads(line)
            except ValueError:
                continue
            assert "name" in found, "Kafka's own tests take every line of JSON for one of these"
            yield found


def environment() -> dict[str, str]:
    """The environment of Apache's scripts: our commands are found."""
    return {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}


class KafkatestStandalone(_ByScript):
    """A worker alone, with the connectors of its files."""

    command: ClassVar = "connect-standalone"
