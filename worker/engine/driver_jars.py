"""The jars of Spark's driver beside Spark's own: pinned ones, and that of lanes (`Lane.java`).

A separate module because a worker asks for them before its other modules are imported (`process.commands`).
"""

from __future__ import annotations

from pathlib import Path

from headrace.worker.engine.gateway import installed_spark
from headrace.worker.machine import jars
from headrace.worker.machine.java_compiler import compiled


def driver_jars() -> list[Path]:
    """Fetch all of them into the cache. Errors: jars.Unavailable."""
    sparks = sorted((installed_spark() / "jars").glob("*.jar"))
    return [*jars.fetch("spark"), compiled("lane", Path(__file__).parent, sparks)]
