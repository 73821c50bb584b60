"""Names for values inside expressions: an expression is a tree and computes a value at each place that uses it."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """Return `body` of the value, which is computed once however often the body uses it; evaluated, not compiled."""
    return F.get(F.transform(F.array(value), body), 0)
