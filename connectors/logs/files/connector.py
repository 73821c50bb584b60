"""LogFiles: lines of log files into a topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace import __version__
from headrace.config.problems import ConfigError, Problem
from headrace.connectors.logs.files.globs import begin_of
from headrace.connectors.logs.files.offsets import check_offsets
from headrace.connectors.logs.files.settings import SETTINGS, TASKS, LogFilesSettings
from headrace.connectors.logs.files.task import LogFilesSourceTask
from headrace.plugins.contracts import Connector
from headrace.plugins.path_bounds import allowed_paths, check_allowed


class LogFilesSourceConnector(Connector):
    """Spreads logs over tasks by their paths."""

    settings = SETTINGS
    version = __version__
    task_class = "headrace.connectors.LogFilesSourceTask"
    task = LogFilesSourceTask

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """The problems of patterns below which no file may be read."""
        if self.settings.problems(config):
            return []
        return list(self._forbidden(LogFilesSettings.of(config).paths))

    def _forbidden(self, paths: tuple[str, ...]) -> Iterator[Problem]:
        allowed = allowed_paths(self.worker)
        for pattern in paths:
            try:
                check_allowed(begin_of(pattern), allowed)
            except ConfigError as error:
                yield from (Problem("paths", pattern, one.message, one.remedy) for one in error.problems)

    def most_tasks(self, config: Mapping[str, str]) -> int | None:
        """One if only one task can tell the first look at files from later ones."""
        return 1 if config.get("start.at") == "end" else None

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """The connector's config for each task, with their number."""
        count = self.most_tasks(self.given) or max_tasks
        return [{**self.given, TASKS: str(count)} for _ in range(count)]

    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        """True: files can be read again."""
        return True

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accepts positions in files, and null. Errors: ValueError."""
        return check_offsets(offsets)
