"""A program of Apache's distribution as a process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

from headrace.config.jars import KAFKA_SETS, KAFKA_VERSION
from headrace.plugins.interop.jvm.jars import fetch, find_java
from headrace.plugins.interop.jvm.java_compiler import compiled
from headrace.worker.embedded.kafka_broker import kafka_version
from tests.bench.sides import LOG4J2
from tests.integration.worker_process import properties

_MOVED: Final = Path(__file__).with_name("moved")


def class_path() -> list[Path]:
    """The jars of HEADRACE_KAFKA_VERSION; those of 4.4 with the class that its plugins, still of 4.3, ask for."""
    version = kafka_version()
    jars = fetch(KAFKA_SETS[version][1])
    return jars if version == KAFKA_VERSION else [*jars, compiled("moved", _MOVED, jars)]


class ApacheProcess:
    """One program that takes a properties file, in a folder of its own; a context."""

    main: ClassVar[str]
    arguments: tuple[str, ...] = ()
    """The arguments that follow the file on the command line."""

    def __init__(self, directory: Path, settings: Mapping[str, str]) -> None:
        self.directory = directory
        self.settings = dict(settings)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """The process runs, with a new log."""
        self.directory.mkdir(parents=True, exist_ok=True)
        (self.directory / "worker.properties").write_text(properties(self.settings))
        (self.directory / "log4j2.properties").write_text(LOG4J2)
        command = [
            str(find_java().path),
            *("-Xmx256M", "-XX:TieredStopAtLevel=1"),
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            *("-cp", os.pathsep.join(str(jar) for jar in class_path())),
            self.main,
            str(self.directory / "worker.properties"),
            *self.arguments,
        ]
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory)

    def stop(self) -> int:
        """It has done its last work and ended; the exit code."""
        self._process.terminate()
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def kill(self) -> None:
        """`kill -9`."""
        self._process.kill()
        self._process.wait()

    @property
    def alive(self) -> bool:
        """True if its process runs."""
        return self._process.poll() is None

    @property
    def log(self) -> str:
        """All that it has logged."""
        return self.read_log()

    def read_log(self) -> str:
        """All that it has logged since it was started last."""
        return (self.directory / "log").read_text()
