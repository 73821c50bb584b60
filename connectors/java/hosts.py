"""The worker's Java host, started when a Java plugin is first needed, and again after it was lost."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Final

from headrace.config.problems import ConfigError, Problem
from headrace.config.values import HIDDEN
from headrace.config.worker.java_host import HEAP, OPTIONS
from headrace.connectors.java import beans, log_lines
from headrace.connectors.java.class_path import class_path
from headrace.connectors.java.errors import HostLost, HostTimeout, JavaError, JvmRefused
from headrace.connectors.java.process import Answer, JavaHost
from headrace.plugins.interop.java_hosts import JAVA_HOSTS
from headrace.plugins.samples import Sample

log = logging.getLogger(__name__)

_LEVELS_S: Final = 5.0
_SCRAPE_S: Final = 1.0
_starting: Final = threading.Lock()
_hosts: Final[list[JavaHost]] = []


def running_host() -> JavaHost:
    """Return the host to start plugins in; waits for its start.

    Errors: HostLost if it does not start; ConfigError if that is due to the worker's settings.
    """
    with _starting:
        for host in _hosts:
            if not host.is_lost and not host.is_retired:
                return host
        _hosts[:] = [host for host in _hosts if not host.is_lost]
        _hosts.append(_started())
        JAVA_HOSTS.running = _running
        _running.set_levels()
        return _hosts[-1]


class _Running:
    """The worker's calls to all running hosts."""

    def __init__(self) -> None:
        self._setting = threading.Lock()
        self._reading: dict[JavaHost, Future[Answer]] = {}

    @property
    def pid(self) -> int | None:
        return next((host.pid for host in _hosts if not host.is_lost and not host.is_retired), None)

    def set_levels(self) -> None:
        """Give their loggers the levels of this process; a host that does not answer is logged."""
        with self._setting:
            levels = log_lines.levels()
            for host in [host for host in _hosts if not host.is_lost]:
                try:
                    host.call("levels", _LEVELS_S, levels=levels)
                except (HostLost, HostTimeout, JavaError) as error:
                    log.warning("The levels of loggers did not reach the Java host %d: %s", host.pid, error)

    def samples(self) -> Sequence[Sample]:
        """Return the numbers of their beans; a host that is late has none, and is not asked again meanwhile."""
        hosts = [host for host in _hosts if not host.is_lost]
        for gone in set(self._reading).difference(hosts):
            self._reading.pop(gone, None)
        return beans.distinct(sample for host in hosts for sample in self._samples_of(host))

    def end(self) -> None:
        """End them; return once their last lines are written. One that is starting now ends with its worker."""
        for host in list(_hosts):
            host.end()

    def _samples_of(self, host: JavaHost) -> Iterable[Sample]:
        try:
            reading = self._reading.get(host)
            if reading is None or reading.done():
                reading = self._reading[host] = host.ask("beans", most=beans.MOST)
            return list(beans.samples(reading.result(_SCRAPE_S)[0]))
        except NotYet:
            log.warning("The beans of the Java host %d are missing in /metrics: it does not answer", host.pid)
        except (HostLost, JavaError) as error:
            log.warning("The beans of the Java host %d are missing in /metrics: %s", host.pid, error)
        return ()


_running: Final = _Running()


def _started() -> JavaHost:
    heap, options = JAVA_HOSTS.heap, JAVA_HOSTS.options
    try:
        return JavaHost(class_path(), [*_command(), *([f"-Xmx{heap}"] if heap else []), *options])
    except JvmRefused as error:
        if heap is None and not options:
            raise
        named = {HEAP: heap, OPTIONS: HIDDEN if options else None}  # options may have passwords
        problems = [
            Problem(key, value, f"{error}.", f"Correct {key} in the worker's properties and restart the worker.")
            for key, value in named.items()
            if value is not None
        ]
        raise ConfigError(problems, "What the worker says of its Java host") from error


def _command() -> list[str]:
    """Return the command line of Connect for the JVM: Iceberg's sink looks there for the worker's properties."""
    file = JAVA_HOSTS.worker_file
    return [] if file is None else [f"-Dsun.java.command=org.apache.kafka.connect.cli.ConnectDistributed {file}"]
