"""Python functions over Arrow batches in the middle of a frame's expressions.

`frame.mapInArrow(function, schema)` makes a plan need a Spark job. With an `ArrowFunction` it does not: inline the
worker finds the function by its name in the plan and calls it itself, between the expressions below and those above.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import pyarrow as pa

from headrace.plugins.interop.catalyst.liveness import report_liveness

_numbers = itertools.count(1)
_functions: WeakValueDictionary[str, ArrowFunction] = WeakValueDictionary()


@dataclass(eq=False)
class ArrowFunction:
    """A function from one batch to another with as many rows in the same order; found by name while it is referenced.

    Shape: the batch that `run` returns has the columns of the schema passed with it, in their order and types.
    """

    run: Callable[[pa.RecordBatch], pa.RecordBatch]
    """Picklable; called in the worker and in Spark's Python workers."""

    def __post_init__(self) -> None:
        # PySpark names the plan's node after this.
        self.__name__ = f"headrace-{next(_numbers)}"
        _functions[self.__name__] = self

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Map the batches of a partition of a Spark job."""
        report_liveness()
        for batch in batches:
            yield self.run(batch)

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrowFunction, (self.run,)


def function_named(name: str) -> ArrowFunction | None:
    """Return the function that a plan names, if it is one of this process."""
    return _functions.get(name)
