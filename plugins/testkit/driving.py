"""Shared by the drives of sources and sinks: values, limits, and tasks started as by the worker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar

from headrace.plugins.contracts import Connector, InterruptedBy, Limit, SourceOffset, SourcePartition, TaskContext
from headrace.plugins.errors import RetriableError
from headrace.plugins.extensions import PreviewedSink
from headrace.plugins.stopping import StopToken
from headrace.plugins.testkit.promises import broken, holds, same

T = TypeVar("T")

LARGE: Final = Limit(100_000, 64 << 20)
SMALL: Final = Limit(3, 48)
"""So small that a few rows need many plans."""

PLAIN: Final = tuple(f"row {number}" for number in range(20))
EQUAL: Final = ("same", "same", "other", "same", "", "", "same")
HOSTILE: Final = (
    "",
    " ",
    "x" * 200_000,
    "grüße, 世界 🎉 e\u0301",
    "nul \x00 inside",
    "\"quoted\" and 'quoted' and \\backslash\\ and `tick`",
    '{"json": [1, null]}',
    "null",
    "\t tab, \x01 control, \x7f delete, \x85 next line, \u2028 separator",
    "\ufeffa byte order mark",
    "%s ${file:/etc/passwd} $(id) ; drop table t --",
)
"""Values that break careless code; without line ends, which some outside systems cannot hold."""

STOP_S: Final = 3.0
"""A task that was asked to end does so within a second; a busy machine may take three."""
MOST_ERRORS: Final = 10
"""A task that fails so often for one failure outside does not go on by itself."""


class Started(NamedTuple):
    """A task as the worker holds it."""

    task: Any
    stopping: StopToken

    def end(self) -> None:
        """Ask it to end, and stop it."""
        self.stopping.set()
        self.task.stop()


class _Ignoring:
    def reconfigure(self) -> None: ...

    def fail(self, error: Exception) -> None:
        raise error

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        return [None for _ in partitions]


def start_tasks(
    connector: Connector, config: Mapping[str, str], worker: Mapping[str, Any], most: int = 1, is_preview: bool = False
) -> list[Started]:
    """Start the connector, and all tasks that it makes of at most so many, as the worker does.

    `is_preview`: as for a preview.
    """
    connector.worker = worker
    same(connector.validate(config), [], "the rig's config is valid")
    connector.start(config, _Ignoring())
    try:
        configs = connector.task_configs(most)
        return [_started(connector, number, one, worker, is_preview) for number, one in enumerate(configs)]
    finally:
        connector.stop()


def _started(
    connector: Connector, number: int, config: Mapping[str, str], worker: Mapping[str, Any], is_preview: bool
) -> Started:
    task, stopping = connector.task(), StopToken()
    context = TaskContext("under-test", number, stopping, worker, interrupted_by=_interrupting(stopping))
    if not is_preview:
        task.start(config, context)
    elif isinstance(task, PreviewedSink):
        task.start_preview(config, context)
    else:
        broken("the sink says what it would write", f"{type(task).__qualname__} inherits no PreviewedSink")
    return Started(task, stopping)


def _interrupting(stopping: StopToken) -> InterruptedBy:
    """Return what calls `cancel` once the task has to end, again and again until the call is left."""

    @contextmanager
    def interrupted_by(cancel: Callable[[], None]) -> Iterator[None]:
        left = threading.Event()

        def watch() -> None:
            while not left.wait(0.05):
                if stopping.is_set():
                    cancel()

        threading.Thread(target=watch, name="interrupts", daemon=True).start()
        try:
            yield
        finally:
            left.set()

    return interrupted_by


def started(start: Callable[[], T]) -> tuple[list[Exception], T]:
    """Start, also if the outside system fails meanwhile; return the errors on the way."""
    errors: list[Exception] = []
    while len(errors) < 3:
        try:
            return errors, start()
        except AssertionError:
            raise
        except Exception as error:
            errors.append(error)
    return broken("once the outside system is there again, the task starts", f"it raised {errors}")


def survived(run: Callable[[], object], recover: Callable[[], None], restart: Callable[[], None]) -> list[Exception]:
    """Run to the end; after an error go on as the worker does, or its operator. Return the errors."""
    errors: list[Exception] = []

    def succeeds(step: Callable[[], object]) -> bool:
        try:
            step()
        except AssertionError:
            raise
        except Exception as error:
            errors.append(error)
            return False
        return True

    while not succeeds(run):
        recover()
        while not isinstance(errors[-1], RetriableError) and not succeeds(restart):
            _check_patience(errors)
        _check_patience(errors)
    return errors


def _check_patience(errors: Sequence[Exception]) -> None:
    holds(len(errors) < MOST_ERRORS, "once the outside system is there again, the task goes on", f"it raised {errors}")
