"""A tap or target as a process: its files, its environment, its last words, and its end."""

from __future__ import annotations

import contextlib
import contextvars
import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from headrace.connectors.singer.errors import SingerError
from headrace.plugins.owned_processes import dying_with_owner
from headrace.plugins.scratch import scratch_folder

log = logging.getLogger(__name__)

_LAST_LINES: Final = 20
_LONGEST_LOGGED: Final = 16 << 10
LONGEST_LINE: Final = 64 << 20
_END_S: Final = 2.0
"""The time that a process may take to end once it is asked to."""
_PASSED_ON: Final = ("PATH", "LANG", "LANGUAGE", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
"""Of the worker's environment, which may hold its secrets; besides `LC_*` and the names of proxies."""


class SingerProcess:
    """A running process; as a context manager it has ended afterwards, with all that it started."""

    def __init__(self, executable: Path, arguments: Sequence[str], files: Mapping[str, Any], *, takes_input: bool):
        """Start the process; `files` become JSON files whose paths follow `arguments` as options of their names.

        The thread that calls must live as long as the process. Errors: SingerError if it cannot be started.
        """
        self.name = executable.name
        self.seen()
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._folder = scratch_folder("singer")
        options = list(arguments)
        for name, value in files.items():
            options += [f"--{name}", str(_written(Path(self._folder.name, f"{name}.json"), value))]
        try:
            self._process = subprocess.Popen(
                dying_with_owner([str(executable), *options]),
                stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self._folder.name,
                env=_environment(self._folder.name),
                start_new_session=True,
            )
        except OSError as error:
            self._folder.cleanup()
            raise SingerError(f"{self.name} cannot be started: {error}") from error
        self._logger = task_thread(self._log, f"singer-log-{self.name}")

    @property
    def input(self) -> IO[bytes]:
        """Its standard input."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def exit_code(self) -> int | None:
        """None as long as it runs."""
        return self._process.poll()

    def lines(self) -> Iterator[bytes]:
        """Yield what it prints; ends with it. Errors: SingerError for a line too long, and if it fails."""
        assert self._process.stdout is not None
        while line := self._process.stdout.readline(LONGEST_LINE):
            self.seen()
            if len(line) == LONGEST_LINE:
                raise SingerError(f"printed a line of more than {LONGEST_LINE >> 20} MiB")
            yield line
            self.seen()
        if (code := self._process.wait()) != 0:
            raise SingerError(f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}")

    def seen(self) -> None:
        """Note a sign that it does not hang."""
        self._last_sign = time.monotonic()

    def stalled(self, timeout_s: float) -> SingerError | None:
        """Return the error of a process that gave no sign for so long; None if it gave one."""
        if time.monotonic() - self._last_sign < timeout_s:
            return None
        return SingerError(f"{self.name} gave no sign for {timeout_s:g} s and was ended{self.last_words()}")

    def last_words(self) -> str:
        """Return the last lines that it logged, for an error."""
        if self.exit_code is not None:
            self._logger.join(_END_S)  # they may still be on their way
        lines = list(self._last_lines)
        return "".join(["; its last lines:", *(f"\n  {line}" for line in lines)]) if lines else "; it logged nothing"

    def end(self) -> None:
        """Ask it to end, and kill what is left of it and of its children; any thread may call, repeatedly."""
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            log.warning("%s did not end when it was asked to, and is killed", self.name)
        self.kill()

    def kill(self) -> None:
        """Kill it with its children, without a chance to clean up; any thread may call, repeatedly."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._logger.join(_END_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # what was not written yet finds no reader
                    stream.close()
        self._folder.cleanup()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _log(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stream:
            while line := stream.readline(_LONGEST_LOGGED):
                self.seen()
                if text := line.decode(errors="replace").rstrip():
                    self._last_lines.append(text)
                    log.info("%s: %s", self.name, text)


def task_thread(target: Any, name: str) -> threading.Thread:
    """Start a thread whose log lines are the task's."""
    thread = threading.Thread(target=contextvars.copy_context().run, args=(target,), name=name, daemon=True)
    thread.start()
    return thread


def _written(file: Path, value: Any) -> Path:
    """Write a file that only this user can read."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as out:
        json.dump(value, out)
    return file


def _environment(folder: str) -> dict[str, str]:
    passed = {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or name.startswith("LC_") or name.lower().endswith("_proxy")
    }
    return {**passed, "HOME": folder, "TMPDIR": folder}
