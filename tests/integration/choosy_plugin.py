"""A stranger's sink that will not take some records, and says so in every way it may. For `plugin.path`.

A value `<how> <name>` is a line of its file; how:

    ok       taken
    named    refused alone: RecordsFailed names it
    hidden   its batch is refused, without a word on which record is to blame
    slow     its batch fails on what may pass, until the file `<file>.<name>` is there
    hangs    its batch does not end until then; `<file>.<name>.hangs` is there from its begin on
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column

from headrace.config.settings import Setting, Settings, Type
from headrace.connectors.file.sink import value_text
from headrace.plugins.contracts import (
    ArrowWriter,
    Connector,
    ConnectorContext,
    Place,
    RecordFailure,
    RecordsFailed,
    RetriableError,
    SinkTask,
    TaskContext,
)
from headrace.plugins.records import Records


def shout(batch: pa.RecordBatch, settings: Mapping[str, str]) -> pa.RecordBatch:
    """For `headrace.transforms.Python`: the field `line` in capitals."""
    at = batch.schema.get_field_index("line")
    return batch.set_column(at, "line", pc.utf8_upper(batch["line"]))


class ChoosyWriter:
    """Appends lines."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._lines: list[str] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Nothing is in the file yet."""
        self._lines += rows["value"].to_pylist()

    def finish(self) -> bytes:
        """The lines are in the file, or some of them, or none."""
        hows = [line.partition(" ")[0] for line in self._lines]
        if "hidden" in hows:
            raise RecordsFailed("a record is not to my taste")
        for line in self._lines:
            if line.startswith("hangs "):
                self._wait(line[6:])
            if line.startswith("slow ") and not Path(f"{self._file}.{line[5:]}").exists():
                raise RetriableError(f"not ready for {line[5:]}")
        taken = [line for line, how in zip(self._lines, hows, strict=True) if how != "named"]
        with open(self._file, "a") as file:
            file.writelines(line + "\n" for line in taken)
        if len(taken) < len(hows):
            failures = [RecordFailure(row, "I do not take this") for row, how in enumerate(hows) if how == "named"]
            raise RecordsFailed("some were not taken", failures)
        return b""

    def _wait(self, name: str) -> None:
        """Wait for the file, as what hears of no end does."""
        Path(f"{self._file}.{name}.hangs").touch()
        while not Path(f"{self._file}.{name}").exists():
            time.sleep(0.05)

    def abort(self) -> None:
        """Nothing is open."""


class ChoosySinkTask(SinkTask):
    """Writes to `file`."""

    place = Place.WORKER_PROCESS

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Ready."""
        self._file = config["file"]

    def columns(self, records: Records) -> list[Column]:
        """The values as text."""
        return [value_text(records).alias("value")]

    def writer(self, attempt: str) -> ArrowWriter:
        """One for each try."""
        return ChoosyWriter(self._file)


class ChoosySinkConnector(Connector):
    """One task."""

    settings = Settings(Setting("file", Type.STRING))
    version = "1.0"
    task_class = "org.example.ChoosySinkTask"
    task = ChoosySinkTask

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Ready."""
        self._config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One."""
        return [self._config]
