"""Runs the JVMs of brokers and workers in tests without the compiler of fast code (C2).

They live for seconds, in which it costs more than it gives. Measured, processor seconds: 26 of the JDBC sink's tests
81 with it and 57 without, a broker's start 3.1 and 1.9; all 85 of these tests 154 and 167, so the driver of the tests'
own process, which lives for minutes, has it.
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
    from headrace.worker.engine.driver_conf import DEFAULTS

    key = "spark.driver.extraJavaOptions"
    return {key: f"{DEFAULTS[key]} {ONLY_C1}"}
