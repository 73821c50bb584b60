"""A task's host as tests have it: Spark is ready, and nobody reads its metrics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from headrace.plugins.contracts import TaskContext
from headrace.plugins.stopping import StopToken
from headrace.worker.deadletters.converter_retry import RetryBudget
from headrace.worker.model import TaskId
from headrace.worker.tasks.host import TaskHost
from headrace.worker.tasks.interrupts import Interrupts

TASK = TaskId("c", 0)


class Anything:
    """Takes every call, and answers each with more of itself."""

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __call__(self, *_: Any, **__: Any) -> Any:
        return Anything()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None: ...


def host(**given: Any) -> TaskHost:
    """A host of a task that may move."""
    parts = {
        "id": TASK,
        "config": {},
        "context": TaskContext(TASK.connector, TASK.task, StopToken()),
        "spark": SimpleNamespace(is_ready=True),
        "report": lambda *_: None,
        "metrics": Anything(),
        "topic_used": lambda *_: None,
        "membership_ok": lambda: True,
        "interrupts": Interrupts(str(TASK)),
        "retry_budget": RetryBudget(0, 0),
    }
    return TaskHost(**{**parts, **given})
