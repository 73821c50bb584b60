"""A stranger's connector that is careless with its secrets: whatever fails in it shows them. For `plugin.path`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.config.settings import Problem, Setting, Settings, Type
from headrace.plugins.contracts import (
    ArrowReader,
    Connector,
    ConnectorContext,
    Limit,
    Plan,
    RetriableError,
    SourceOffset,
    SourcePartition,
    SourceTask,
    Split,
    TaskContext,
)
from headrace.plugins.records import Records, source_records
from headrace.plugins.schema import STRING

log = logging.getLogger(__name__)


class GuardedError(Exception):
    """Says what it should not."""


def careless(config: Mapping[str, str]) -> str:
    """Text that a careless author puts into messages."""
    return f"refused: {dict(config)!r} {json.dumps(dict(config))} {config.get('password')} {config.get('url')}"


class _Reader:
    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        """Fails."""
        raise GuardedError(careless(self._config))


class GuardedTask(SourceTask):
    """Fails where `fails` says: in start, plan, here or there."""

    row_type = pa.schema([("value", pa.string())])
    offset_type = pa.struct([("n", pa.int64())])

    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        """Write the config that it was given to the file `seen`."""
        self._config = config
        self._attempts = 0
        Path(config["seen"]).write_text(json.dumps(dict(config)))
        log.info("Starting with %s", careless(config))
        if config["fails"] == "start":
            raise GuardedError(careless(config))

    def partitions(self) -> Sequence[SourcePartition]:
        """One."""
        return [{"p": "0"}]

    def plan(self, after: Sequence[SourceOffset | None], limit: Limit) -> Plan | None:
        """Away at first, then as `fails` says."""
        self._attempts += 1
        if self._attempts == 1:
            raise RetriableError(careless(self._config))
        if self._config["fails"] == "plan":
            raise GuardedError(careless(self._config))
        rows = 1_000_000 if self._config["fails"] == "there" else 1
        return Plan((Split({"p": "0"}, None, {"n": 1}),), rows, rows * 100)

    def reader(self, plan: Plan) -> ArrowReader:
        """One that fails."""
        return _Reader(self._config)

    def records(self, frame: DataFrame) -> Records:
        """Never used."""
        return source_records(frame, F.lit("guarded"), F.col("value"), STRING)


class GuardedConnector(Connector):
    """Copies its config to its task, and something more."""

    settings = Settings(
        Setting("password", Type.PASSWORD),
        Setting("pin", Type.PASSWORD, None),
        Setting("size", Type.INT, 1),
        Setting("fails", Type.STRING),
        Setting("seen", Type.STRING),
    )
    version = "1.0"
    task_class = "org.example.GuardedTask"
    task = GuardedTask

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Wrong, or broken, where `fails` says so."""
        if config.get("fails") == "validation":
            raise GuardedError(careless(config))
        if config.get("fails") == "valid":
            return [Problem("url", config["url"], careless(config))]
        return []

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Ready, unless `fails` says otherwise."""
        self._config = dict(config)
        if config["fails"] == "connector":
            raise GuardedError(careless(config))

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One, with the password once more under another name."""
        return [{**self._config, "login": f"me:{self._config['password']}"}]

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Any."""
        return True
