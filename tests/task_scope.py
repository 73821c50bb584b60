"""The scope of a task as tests have it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from headrace.config.connector.error_handling import ErrorHandling
from headrace.worker.deadletters.reporting import Reporting
from headrace.worker.engine.bounds import Bounds
from headrace.worker.engine.cluster import LocalExecutors
from headrace.worker.engine.programs import Engine
from headrace.worker.engine.quota import Quota
from headrace.worker.pipeline.scope import TaskScope


def handling(tolerate: bool = False, log: bool = False, dead_letters: str = "", retry_topic: str = "") -> ErrorHandling:
    """Return a connector's settings for failed records; dead letters have headers that say what went wrong."""
    return ErrorHandling(tolerate, 1000, 100, log, False, dead_letters, 1, True, retry_topic)


def task_scope(engine: Engine | None = None, errors: ErrorHandling | None = None, **given: Any) -> TaskScope:
    """The scope of the task c-0; without `engine` of one that has no Spark."""
    spark = SimpleNamespace(generation=1, is_local=True, is_ready=True, executors=LocalExecutors())
    pool: Any = SimpleNamespace(spark=spark)
    parts = {"bounds": Bounds(), "reporting": Reporting("c", 0, errors or handling()), **given}
    return TaskScope("c-0", engine or Engine(pool, Quota(2), Quota(1 << 20)), **parts)
