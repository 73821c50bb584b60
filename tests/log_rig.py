"""A folder of log files for the tests of LogFiles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.connectors.logs.files.connector import LogFilesSourceConnector
from headrace.plugins.contracts import Connector
from headrace.plugins.testkit import SourceRig


class LogRig(SourceRig):
    def __init__(self, folder: Path, name: str = "app.log", terminator: str = "\n", **settings: str) -> None:
        self.folder, self.path, self.terminator = folder, folder / name, terminator
        self.worker: Mapping[str, Any] = {"file.allowed.paths": [str(folder)]}
        self.settings = {"paths": f"{folder}/*.log", "line.max.bytes": "8000000"} | {
            key.replace("_", "."): value for key, value in settings.items()
        }

    def connector(self) -> Connector:
        return LogFilesSourceConnector()

    def config(self) -> dict[str, str]:
        return {"name": "c", "connector.class": "LogFiles", "topic": "t", **self.settings}

    def put(self, values: Any) -> None:
        self.write("".join(value + self.terminator for value in values))

    def write(self, data: str | bytes, name: str = "") -> None:
        with (self.folder / name if name else self.path).open("ab") as file:
            file.write(data.encode() if isinstance(data, str) else data)

    def rotate(self, *names: str) -> None:
        """Renames each file to the name before it."""
        for target, source in zip(names, [*names[1:], self.path.name], strict=True):
            if (self.folder / source).exists():
                (self.folder / source).rename(self.folder / target)
