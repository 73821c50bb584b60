"""The Spark session's JVM also runs Apache's own classes."""

from __future__ import annotations

from tests.spark.conftest import spark

__all__ = ["spark"]
