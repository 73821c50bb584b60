"""A file source with several tasks: task n reads the file `<file>-n`. For `plugin.path`."""

from __future__ import annotations

from headrace.connectors.file.source import FileStreamSourceConnector


class NumberedSourceConnector(FileStreamSourceConnector):
    """As many tasks as allowed, each with a file of its own."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One per file."""
        return [{**self.given, "file": f"{self.given['file']}-{number}"} for number in range(max_tasks)]
