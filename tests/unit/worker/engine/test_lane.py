"""The class that a lane is of in the JVM."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any
from unittest.mock import MagicMock

from headrace.worker.engine.lane_class import java_class


def test_lanes_that_begin_at_once_are_of_one_class() -> None:
    """py4j keeps methods by the name of their class, and would call those of another one."""
    jvm, together = MagicMock(), Barrier(4)
    jvm.org.codehaus.janino.SimpleCompiler.side_effect = MagicMock

    def begin(_: int) -> Any:
        together.wait(60)
        return java_class(jvm)

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(begin, range(4)))) == 1
    assert jvm.org.codehaus.janino.SimpleCompiler.call_count == 1
