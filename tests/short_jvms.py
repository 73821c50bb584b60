"""How the JVMs of tests run: they live for seconds, in which the compiler of fast code (C2) costs more than it gives.

Measured, processor seconds of `test_jdbc_sink.py` with SQLite alone: 81 with it, 57 without.
"""

from __future__ import annotations

import os
from typing import Final

ONLY_C1: Final = "-XX:TieredStopAtLevel=1"


def use_in_brokers() -> None:
    """Every broker that is started from now on, by this process or one that it starts, runs so."""
    os.environ["KAFKA_OPTS"] = " ".join([*os.environ.get("KAFKA_OPTS", "").split(), ONLY_C1])


def of_spark() -> dict[str, str]:
    """The settings with which a worker's Spark driver runs so."""
    from headrace.worker.engine.driver import DEFAULTS

    key = "spark.driver.extraJavaOptions"
    return {key: f"{DEFAULTS[key]} {ONLY_C1}"}
