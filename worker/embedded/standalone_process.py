"""A standalone worker as a process of its own, as production runs it, with its files in one folder."""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import javaproperties

from headrace.worker.machine import processes

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"

STOP_S: Final = 30.0
"""The time that the worker may take to end by itself."""


class StandaloneProcess:
    """A `connect-standalone` process, which may be started again after its end."""

    def __init__(self, folder: Path, settings: Mapping[str, Mapping[str, str]]) -> None:
        """`settings`: those of the worker, then of connectors, by the name of their file."""
        self.log_file = folder / "worker.log"
        self._folder = folder
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def properties(folder: Path, bootstrap_servers: str, rest_port: int) -> dict[str, str]:
        """Return the settings that every such worker has."""
        return {
            "bootstrap.servers": bootstrap_servers,
            "listeners": f"http://127.0.0.1:{rest_port}",
            "key.converter": _JSON,
            "value.converter": _JSON,
            "offset.storage.file.filename": str(folder / "connect.offsets"),
        }

    def start(self) -> None:
        """Write the files and start the process."""
        for name, values in self._settings.items():
            (self._folder / name).write_text(javaproperties.dumps(dict(values), timestamp=False), encoding="ascii")
        command = [sys.executable, "-m", "headrace.rest.commands", "connect-standalone"]
        command += [str(self._folder / name) for name in self._settings]
        self._process = processes.spawn(command, output=self.log_file, cwd=self._folder)

    def stop(self) -> bool:
        """End the process; False if it had to be killed. Offsets are kept for the next `start`."""
        return self._process is None or processes.stop(self._process, STOP_S)

    def kill(self) -> None:
        """End the process as a crash does."""
        if self._process is not None:
            processes.kill(self._process)

    def exit_code(self) -> int | None:
        """Return the code with which it has ended; None if it runs, or never did."""
        return None if self._process is None else self._process.poll()

    def log_end(self, lines: int = 30) -> str:
        """Return the last lines of its log."""
        try:
            with open(self.log_file, encoding="utf-8", errors="replace") as file:
                return "".join(deque(file, lines)).rstrip()
        except FileNotFoundError:
            return "(it logged nothing)"
