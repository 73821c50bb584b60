"""Shared by the contracts of sources and sinks: values, limits, and a task started as by the worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headrace.plugins.contracts import Connector, Limit, SourceOffset, SourcePartition, TaskContext
from headrace.plugins.stopping import StopToken

LARGE: Final = Limit(100_000, 64 << 20)
SMALL: Final = Limit(3, 48)
"""So small that a few rows need many plans."""

PLAIN: Final = tuple(f"row {number}" for number in range(20))
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


class _Ignoring:
    def reconfigure(self) -> None: ...

    def fail(self, error: Exception) -> None:
        raise error

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        return [None for _ in partitions]


def start_task(connector: Connector, config: dict[str, str], worker: Mapping[str, Any]) -> Any:
    """Start the connector's first task as the worker does."""
    assert connector.validate(config) == []
    connector.start(config, _Ignoring())
    configs = connector.task_configs(1)
    assert len(configs) == 1
    task = connector.task()
    task.start(configs[0], TaskContext("under-test", 0, StopToken(), worker))
    return task
