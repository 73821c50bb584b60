"""Where a worker and the Java hosts of its process meet: rooms that may not import each other.

The worker says how hosts are to be started and when a logger has got another level, and asks for metrics;
`connectors/java/hosts.py` answers once a Java plugin was needed. Until then nothing here starts a host.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from headrace.plugins.samples import Sample


class RunningHosts(Protocol):
    """The hosts of this process."""

    @property
    def pid(self) -> int | None:
        """The process id of the host that new plugins start in; None while there is none."""

    def set_levels(self) -> None:
        """Give their loggers the levels of this process."""

    def samples(self) -> Sequence[Sample]:
        """The numbers of their beans."""


class JavaHosts:
    """What the one side knows of the other."""

    def __init__(self) -> None:
        self.heap: str | None = None
        """The most heap that a host's JVM may have, as `-Xmx` takes it; None for the JVM's own choice."""
        self.options: Sequence[str] = ()
        """Further options of its JVM."""
        self.worker_file: Path | None = None
        """The worker's properties file; None where a process has none."""

        self.running: RunningHosts | None = None
        """The hosts; None until one was started."""

    def levels_changed(self) -> None:
        """Give the hosts' loggers the levels that loggers of these names have here now."""
        if self.running is not None:
            self.running.set_levels()

    @property
    def pid(self) -> int | None:
        """The process id of the host that new plugins start in; None while there is none."""
        return None if self.running is None else self.running.pid

    def samples(self) -> Sequence[Sample]:
        """The numbers of the beans of plugins; none while no host runs, or where it does not answer soon."""
        return () if self.running is None else self.running.samples()


JAVA_HOSTS: Final = JavaHosts()
