"""Errors that plugins raise and the worker understands; free of Spark, for the control plane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple


def causes(error: BaseException, contexts: bool = False) -> Iterator[BaseException]:
    """Yield the error and its causes, each once, for an error may be raised from itself.

    `contexts`: also those that were being handled when one without a cause was raised.
    """
    met: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in met:
        met.add(id(one))
        yield one
        one = one.__cause__ or (one.__context__ if contexts else None)


class RetriableError(Exception):
    """A failure after which a retry may succeed; the worker retries, with back-off."""


class LoginRefused(Exception):
    """An outside system refuses the login.

    Retries do not help; a restart may, since it resolves the config's variables anew and passwords may have changed.
    """


class RecordFailure(NamedTuple):
    """One record that a sink's writer could not write."""

    row: int
    """Index among the rows of the `write` that raised; for `finish` among all rows that the writer got."""
    message: str
    retriable: bool = False
    """True if a retry may succeed."""
    stage: str | None = None
    """Connect's stage of the failure, such as TRANSFORMATION, if it was not in the writer's own work."""
    class_name: str | None = None
    """Class that failed, with `stage`."""


class RecordsFailed(Exception):
    """Raised by a writer's `write` or `finish`, or by a `put` if some records of a batch cannot be written.

    With `failures`: exactly these records were not written; all others of this call were. From `finish`, `part` is the
    answer it would have returned. Without: none of the writer's rows counts as written. The worker then finds the bad
    records by giving ever smaller parts of the batch to new writers.

    `RecordsFailed({index: reason})` is short for failures without more.
    """

    def __init__(
        self, message: str | Mapping[int, str], failures: Sequence[RecordFailure] = (), part: bytes = b""
    ) -> None:
        if isinstance(message, Mapping):
            failures = [RecordFailure(row, str(reason)) for row, reason in sorted(message.items())]
            message = f"{len(failures)} records failed" + (f", the first: {failures[0].message}" if failures else "")
        super().__init__(message)
        self.failures = tuple(failures)
        self.part = part

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.failures, self.part)


class DataError(Exception):
    """A record that cannot be processed as it is; it is dead-lettered, or it fails its task."""


class StoppedError(Exception):
    """The task was asked to end while it waited; not a failure."""
