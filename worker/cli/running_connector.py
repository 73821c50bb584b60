"""A connector in a worker of a command's own: created by REST, its state, and the lines of the log that matter."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from headrace.worker.cli.own_worker import OwnWorker, PipeFailed
from headrace.worker.cli.pipe_watch import failure_in

_START_S: Final = 180.0
_PAUSE_S: Final = 0.1
_NOT_YET: Final = (409, 503)
"""Answers of a worker that still starts."""

_QUIET: Final = re.compile(
    r"\[[^\]]*\] ((TRACE|DEBUG|INFO) |WARN .*\(headrace\.(rest\.\S+|config\.worker\.allowed_hosts):\d+\)$)"
)
"""Lines that an author does not look for: the worker's state, its start, and warnings to operators."""


class RunningConnector:
    """The only connector of a worker."""

    def __init__(self, worker: OwnWorker, client: httpx.Client, config: Mapping[str, str]) -> None:
        self._worker, self._client, self._config = worker, client, config
        self._path = f"/connectors/{quote(config['name'], safe='')}"
        self.failure: str | None = None
        """The reason that it does not run, in a line; the log has the trace."""

    def create(self) -> None:
        """Create the connector once the worker answers; a refusal is its `failure`. Errors: PipeFailed."""
        until = time.monotonic() + _START_S
        while True:
            self._worker.check_alive()
            answer = self._asked("PUT", f"{self._path}/config", dict(self._config))
            if answer is not None and answer.status_code not in _NOT_YET:
                break
            if time.monotonic() > until:
                raise PipeFailed(f"the worker did not take the connector; its log:\n{self._worker.log_end()}")
            time.sleep(_PAUSE_S)
        if answer.is_error:
            self.failure = f"{self._config['name']} was refused: {answer.json()['message']}"

    def look(self) -> bool:
        """Ask for its state; True if it runs with all tasks. Errors: PipeFailed if the worker has ended."""
        self._worker.check_alive()
        answer = self._asked("GET", f"{self._path}/status")
        if answer is None or answer.is_error:
            return False
        status = answer.json()
        self.failure = _first_line(failure_in(status))
        states = [part["state"] for part in (status["connector"], *status["tasks"])]
        return bool(status["tasks"]) and set(states) == {"RUNNING"}

    def _asked(self, method: str, path: str, body: Any = None) -> httpx.Response | None:
        try:
            return self._client.request(method, path, json=body)
        except httpx.HTTPError:
            return None


def _first_line(text: str | None) -> str | None:
    return None if text is None else text.partition("\n")[0]


class LogLines:
    """New lines of a worker's log that matter to an author: warnings, errors, and what plugins print."""

    def __init__(self, path: Path) -> None:
        self._path, self._position = path, 0

    def new(self) -> Iterator[str]:
        """Yield complete lines that were not read yet."""
        if not self._path.exists():
            return
        with open(self._path, "rb") as file:
            file.seek(self._position)
            whole, _, _ = file.read().rpartition(b"\n")
        self._position += len(whole) + bool(whole)
        for line in whole.decode("utf-8", "replace").splitlines():
            if not _QUIET.match(line):
                yield line
