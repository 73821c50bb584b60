"""Link between a worker and the Java hosts of its process, whose rooms may not import each other.

The worker sets how hosts are started and where printed lines go, passes on changed log levels, asks for metrics, and
ends the hosts. `connectors/java/hosts.py` fills it in once a Java plugin is needed. Until then nothing here starts a
host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

from headrace.plugins.samples import Sample


class RunningHosts(Protocol):
    """The hosts of this process."""

    @property
    def pid(self) -> int | None:
        """Process id of the host in which new plugins start; None if there is none."""

    def set_levels(self) -> None:
        """Give their loggers the levels of this process."""

    def samples(self) -> Sequence[Sample]:
        """Return the numbers of their beans."""

    def end(self) -> None:
        """End them; return once their last lines are written."""


class JavaHosts:
    """Start options of the hosts, and the running hosts."""

    def __init__(self) -> None:
        self.heap: str | None = None
        """Maximum heap of a host's JVM, as `-Xmx` takes it; None for the JVM's own choice."""
        self.options: Sequence[str] = ()
        """More options of its JVM."""
        self.worker_file: Path | None = None
        """Properties file of the worker; None if the process has none."""

        self.printed: Callable[[str], None] | None = None
        """Receives the lines that plugins print; without it they are logged."""

        self.running: RunningHosts | None = None
        """The hosts; None until the first start."""

    def levels_changed(self) -> None:
        """Give the hosts' loggers the current levels of the loggers of this process."""
        if self.running is not None:
            self.running.set_levels()

    def end(self) -> None:
        """End the hosts; their last lines are written on return."""
        if self.running is not None:
            self.running.end()

    @property
    def pid(self) -> int | None:
        """Process id of the host in which new plugins start; None if there is none."""
        return None if self.running is None else self.running.pid

    def samples(self) -> Sequence[Sample]:
        """Return the numbers of the plugins' beans; none if no host runs or none answers soon."""
        return () if self.running is None else self.running.samples()


JAVA_HOSTS: Final = JavaHosts()
