"""The worker's errors, drawn as trees by what happens next.

In a task:

    Exception
    ├── plugins.RetriableError      try the batch again, with back-off
    │   └── engine.EngineLost       wait until the driver's JVM answers again, or its next one, first
    ├── plugins.DataError           this record cannot be processed: dead-letter it, or fail the task
    │   └── RecordError             it was refused and `errors.tolerance` is none
    ├── plugins.StoppedError        the task was asked to end while it waited
    └── everything else             fail the task

In an answer to REST or the command line:

    ConnectError            its status and message are the answer
    ├── BadRequest          400  the request or the config is wrong: mend it
    ├── Forbidden           403  this worker's settings switch it off, or the requester lacks a right
    ├── NotFound            404
    ├── TooLarge            413  Kafka takes no record of this size
    ├── AlreadyExists       409  another connector has the name
    ├── Conflict            409  not now: ask again in a moment
    │   ├── Elsewhere       409  another worker decides it: REST asks that one in the requester's place
    │   └── Overtaken       409  a newer request came first, and is being done
    ├── Starting            503  the worker has not read its cluster's connectors yet
    └── TimedOut            500  not decided in time; it may still happen
"""

from __future__ import annotations

from headrace.plugins.errors import DataError


class RecordError(DataError):
    """A record was refused and `errors.tolerance` is none."""


class ConnectError(Exception):
    """A request cannot be carried out."""

    status = 500

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status = status or type(self).status


class BadRequest(ConnectError):
    """The request or the config is wrong."""

    status = 400


class Forbidden(ConnectError):
    """This worker's settings switch it off, or the requester lacks a right."""

    status = 403


class NotFound(ConnectError):
    """There is no such connector, task or plugin."""

    status = 404


class TooLarge(ConnectError):
    """Kafka takes no record of this size."""

    status = 413


class AlreadyExists(ConnectError):
    """Another connector has the name."""

    status = 409


class Conflict(ConnectError):
    """It cannot be done now; asking again in a moment is worth it."""

    status = 409


class Elsewhere(Conflict):
    """Another worker decides it; `url` is that worker's, None while unknown."""

    def __init__(self, url: str | None) -> None:
        super().__init__(
            "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
            if url is None
            else "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
        )
        self.url = url


class Overtaken(Conflict):
    """A newer request, or the connector's end, came before this request was begun. Nothing has failed."""


class Starting(ConnectError):
    """The worker does not know its connectors yet."""

    status = 503


class TimedOut(ConnectError):
    """It was not decided in time."""
