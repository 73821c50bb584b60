"""The jars of Spark's driver beside Spark's own: pinned ones, and those of lanes (`Lane.java`) and Protobuf.

A separate module because a worker asks for them before its other modules are imported (`process.commands`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headrace.plugins.interop.jvm import jars
from headrace.plugins.interop.jvm.java_compiler import compiled
from headrace.worker.engine.gateway import installed_spark

_PROTOBUF: Final = Path(__file__).parents[2] / "plugins" / "interop" / "protobuf"


def driver_jars() -> list[Path]:
    """Fetch all of them into the cache. Errors: jars.Unavailable."""
    sparks, pinned = sorted((installed_spark() / "jars").glob("*.jar")), jars.fetch("spark")
    protobuf = compiled("protobuf", _PROTOBUF, [*sparks, *pinned])
    return [*pinned, compiled("lane", Path(__file__).parent, sparks), protobuf]
