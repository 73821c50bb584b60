"""Costs of Java connectors from their jars: Apache's file connectors and Debezium's JDBC sink, and the host's memory.

Apache Connect runs the same jars. Of Headrace the worker, Spark's driver and the Java host count together.
"""

import shutil
import time
from pathlib import Path

from headrace.plugins.interop.jvm.jars import fetch
from tests.bench import jdbc, throughput
from tests.bench.context import SINK, SOURCE, Bench, Figures
from tests.bench.processes import Failed
from tests.bench.sides import Side

_BOUND_S = 180
_LINES = 3


def source(bench: Bench, side: Side) -> Figures:
    """File → one-partition topic by FileStreamSource, one task."""
    return throughput.source_throughput(bench, side, settings=_settings(bench, side))


def sink(bench: Bench, side: Side) -> Figures:
    """A topic → one appended file by FileStreamSink, one task."""
    return throughput.sink_throughput(bench, side, settings=_settings(bench, side))


def jdbc_sink(bench: Bench, side: Side) -> Figures:
    """Structs → PostgreSQL by Debezium's JDBC sink, every record a new row, two tasks."""
    return jdbc.insert(bench, side, from_jar=True)


def memory(bench: Bench, side: Side) -> Figures:
    """Measure the memory that a worker needs more with one Java source that waits than with its own."""
    if side.jars:
        raise Failed("all of its connectors are Java's")
    before, after = (_memory(bench, side, settings) for settings in ({}, _settings(bench, side)))
    return {"more_mb": after["pss_mb"] - before["pss_mb"], **after}


def _memory(bench: Bench, side: Side, settings: dict[str, str]) -> Figures:
    with bench.run("java-memory") as run:
        topic, file = run.topic(), run.directory / "in.txt"
        file.write_text("a line\n" * _LINES)
        with run.worker(side, [run.source(file, topic)], settings) as worker:
            worker.until(lambda: bench.topics.end(topic) == _LINES, "the lines in the topic", _BOUND_S)
            time.sleep(bench.size.settle)
            begin = worker.cost()
            time.sleep(bench.size.idle_window)
            worker.check()
            return {**worker.memory(), **(worker.cost() - begin).shares()}


def _settings(bench: Bench, side: Side) -> dict[str, str]:
    """The worker's, with which Headrace runs the file connectors from their jar."""
    if side.jars:
        return {}
    return {"plugin.path": str(_plugins(bench)), "java.plugins.preferred": f"{SOURCE},{SINK}"}


def _plugins(bench: Bench) -> Path:
    folder = bench.directory / "file-plugins"
    if not folder.exists():
        (folder / "file").mkdir(parents=True)
        (jar,) = (jar for jar in fetch("connect") if jar.name.startswith("connect-file-"))
        shutil.copy(jar, folder / "file")
    return folder
