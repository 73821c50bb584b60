"""A name for a value inside an expression: expressions are trees, and compute a value wherever they name it."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """`body` of the value, which is computed once however often the body names it; evaluated, not compiled."""
    return F.get(F.transform(F.array(value), body), 0)
