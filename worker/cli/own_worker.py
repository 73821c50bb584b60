"""A worker of a command's own: the process that production runs, with its files in a folder of the command."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self

import javaproperties

from headrace.worker.machine import processes

JSON: Final = "org.apache.kafka.connect.json.JsonConverter"

_STOP_S: Final = 30.0


class WrongUse(Exception):
    """The command cannot be run as given (exit code 2)."""


class PipeFailed(Exception):
    """A connector failed or the worker ended by itself (exit code 1)."""


@contextlib.contextmanager
def home(keep: Path | None, command: str) -> Iterator[Path]:
    """Yield the folder of one run of a command, removed afterwards unless it is kept."""
    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WrongUse(f"--keep {keep} cannot be made ({error.strerror}); name another folder") from error
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory(prefix=f"headrace-{command}-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


class OwnWorker:
    """A `connect-standalone` process; as a context manager it runs inside and is stopped at the end."""

    def __init__(self, folder: Path, settings: Mapping[str, Mapping[str, str]]) -> None:
        self.log_file = folder / "worker.log"
        self._folder = folder
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        for name, values in self._settings.items():
            (self._folder / name).write_text(javaproperties.dumps(dict(values), timestamp=False), encoding="ascii")
        command = [sys.executable, "-m", "headrace.rest.commands", "connect-standalone"]
        command += [str(self._folder / name) for name in self._settings]
        self._process = processes.spawn(command, output=self.log_file, cwd=self._folder)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None and not processes.stop(self._process, _STOP_S):
            print(f"headrace: the worker did not stop within {_STOP_S:.0f} s and was killed", file=sys.stderr)

    def check_alive(self) -> None:
        """Errors: PipeFailed with the end of its log, if it has ended."""
        code = self._process.poll() if self._process is not None else None
        if code is not None:
            raise PipeFailed(f"the worker ended by itself with code {code}; the end of its log:\n{self.log_end()}")

    @staticmethod
    def properties(folder: Path, bootstrap_servers: str, rest_port: int) -> dict[str, str]:
        """Return the settings that every such worker has."""
        return {
            "bootstrap.servers": bootstrap_servers,
            "listeners": f"http://127.0.0.1:{rest_port}",
            "key.converter": JSON,
            "value.converter": JSON,
            "offset.storage.file.filename": str(folder / "connect.offsets"),
        }

    def log_end(self, lines: int = 30) -> str:
        try:
            with open(self.log_file, encoding="utf-8", errors="replace") as file:
                return "".join(deque(file, lines)).rstrip()
        except FileNotFoundError:
            return "(it logged nothing)"
