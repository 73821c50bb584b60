"""The worker's Java host, started when a Java plugin is needed first, and again after it was lost."""

from __future__ import annotations

import threading
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from headrace.connectors.java.process import JavaHost

_GROUP: Final = "headrace.java_host"
_starting: Final = threading.Lock()
_hosts: Final[list[JavaHost]] = []


def running_host() -> JavaHost:
    """The host to start plugins in; waits for its start.

    Errors: HostLost where it does not start; ConfigError where its jars cannot be fetched.
    """
    with _starting:
        for host in _hosts:
            if not host.is_lost and not host.is_retired:
                return host
        _hosts[:] = [host for host in _hosts if not host.is_lost]
        class_path, cache = _class_path()
        _hosts.append(JavaHost(class_path, cache))
        return _hosts[-1]


def end_hosts() -> None:
    """End all hosts of this process."""
    with _starting:
        for host in _hosts:
            host.end()
        _hosts.clear()


def _class_path() -> tuple[list[Path], Path]:
    """Connect's jars, which the worker provides under an entry point, as plugins are: this room imports no worker."""
    (entry,) = entry_points(group=_GROUP, name="jars")
    jars: list[Path] = entry.load()("java")
    return jars, jars[0].parents[1]
