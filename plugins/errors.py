"""The errors that plugins raise and the worker understands; free of Spark, for the control plane to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


class RetriableError(Exception):
    """A failure after which a retry may succeed; the worker retries, with back-off."""


class LoginRefused(Exception):
    """A system outside refuses the login: no retry of the task helps, a new start may, since it reads the config's
    variables anew and passwords are changed."""


class RecordFailure(NamedTuple):
    """One record that a sink's writer could not write."""

    row: int
    """Its index among the rows of the `write` that raised; for `finish` among all rows that the writer was given."""
    message: str
    retriable: bool = False
    """Whether it may succeed when it is tried again."""
    stage: str | None = None
    """Where it failed, if not in the writer's own work: a stage of Connect's, such as TRANSFORMATION."""
    class_name: str | None = None
    """The class that failed, with `stage`."""


class RecordsFailed(Exception):
    """Some records of a batch cannot be written, raised by a writer's `write` or `finish`.

    With `failures` these records alone were not written: all others that this call was about are, and from `finish`
    `part` is what it would have answered. Without: nothing that the writer was given counts as written, and the worker
    finds out which records are to blame by giving new writers ever smaller parts of the batch.
    """

    def __init__(self, message: str, failures: Sequence[RecordFailure] = (), part: bytes = b"") -> None:
        super().__init__(message)
        self.failures = tuple(failures)
        self.part = part

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.failures, self.part)


class DataError(Exception):
    """A record that cannot be processed as it is; it is dead-lettered, or it fails its task."""


class StoppedError(Exception):
    """The task was asked to end while it waited: that is no failure."""
