"""The spool folders under the original connector's names, one for each format, and one of ours for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from headrace import __version__
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Settings
from headrace.connectors.spool import schemas
from headrace.connectors.spool.generation import generated
from headrace.connectors.spool.listing import own_files
from headrace.connectors.spool.offsets import check_offsets
from headrace.connectors.spool.options import TASK_COUNT, TASK_INDEX, options_of
from headrace.connectors.spool.settings import ALL, SETTINGS, Kind
from headrace.connectors.spool.task import SpoolTask
from headrace.plugins.contracts import Connector, ConnectorContext
from headrace.plugins.path_bounds import allowed_paths, check_allowed


class SpoolDirSourceConnector(Connector):
    """Shares the files of a folder among tasks, by their names."""

    settings = ALL
    version = __version__
    task: ClassVar[type[SpoolTask]] = SpoolTask

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Return what is wrong with settings together; none if a single one is wrong: that is reported elsewhere."""
        if self.settings.problems(config):
            return []
        try:
            options = options_of(config, self.task.kind)
            for path in (options.listing.folder, options.cleanup.failed, options.cleanup.finished):
                if path is not None:
                    check_allowed(path, allowed_paths(self.worker))
        except ConfigError as error:
            return error.problems
        return []

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Check the config, and make schemas of the files that are there. Errors: ConfigError, SpoolError."""
        options = options_of(config, self.task.kind, own_files(self.worker))
        self.given = given = dict(config)
        if options.lacks_schema:
            value, key = generated(options, allowed_paths(self.worker))
            given["value.schema"] = schemas.text_of(value)
            if key is not None:
                given["key.schema"] = schemas.text_of(key)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return a config for each task, with its number."""
        return [{**self.given, TASK_INDEX: str(one), TASK_COUNT: str(max_tasks)} for one in range(max_tasks)]

    def most_tasks(self, config: Mapping[str, str]) -> int | None:
        """Return None: as many as there are files."""
        return None

    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        """True: offsets are those of rows, and files are put away behind them."""
        return True

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accept numbers of records to pass over, and null. Errors: ValueError."""
        return check_offsets(offsets)


class SpoolDirCsvSourceTask(SpoolTask):
    """Reads CSV."""

    kind = Kind.CSV


class SpoolDirCsvSourceConnector(SpoolDirSourceConnector):
    """Rows of CSV files."""

    settings = SETTINGS[Kind.CSV]
    task = SpoolDirCsvSourceTask


class SpoolDirJsonSourceTask(SpoolTask):
    """Reads JSON with a schema."""

    kind = Kind.JSON


class SpoolDirJsonSourceConnector(SpoolDirSourceConnector):
    """Objects of JSON files, with a schema."""

    settings = SETTINGS[Kind.JSON]
    task = SpoolDirJsonSourceTask


class SpoolDirLineDelimitedSourceTask(SpoolTask):
    """Reads lines."""

    kind = Kind.LINES


class SpoolDirLineDelimitedSourceConnector(SpoolDirSourceConnector):
    """Lines of text files."""

    settings = SETTINGS[Kind.LINES]
    task = SpoolDirLineDelimitedSourceTask


class SpoolDirSchemaLessJsonSourceTask(SpoolTask):
    """Reads JSON as text."""

    kind = Kind.JSON_TEXT


class SpoolDirSchemaLessJsonSourceConnector(SpoolDirSourceConnector):
    """Objects of JSON files, as texts."""

    settings = SETTINGS[Kind.JSON_TEXT]
    task = SpoolDirSchemaLessJsonSourceTask


class SpoolDirBinaryFileSourceTask(SpoolTask):
    """Reads whole files."""

    kind = Kind.BINARY


class SpoolDirBinaryFileSourceConnector(SpoolDirSourceConnector):
    """Files as bytes."""

    settings = SETTINGS[Kind.BINARY]
    task = SpoolDirBinaryFileSourceTask


class SpoolDirAvroSourceTask(SpoolTask):
    """Reads Avro."""

    kind = Kind.AVRO


class SpoolDirAvroSourceConnector(SpoolDirSourceConnector):
    """Values of Avro files."""

    settings = SETTINGS[Kind.AVRO]
    task = SpoolDirAvroSourceTask


class _NotServed(SpoolDirSourceConnector):
    """A connector whose configs are refused."""

    settings = Settings()
    why: ClassVar[str]
    remedy: ClassVar[str]

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Refuse any config, and say what to use in its place."""
        return [Problem("connector.class", config.get("connector.class"), self.why, self.remedy)]

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Refuse any config. Errors: ConfigError."""
        raise ConfigError(self.validate(config))


class SpoolDirELFSourceConnector(_NotServed):
    """Log files in W3C's extended format, which are not read."""

    why = "Files of W3C's extended log format are not read."
    remedy = (
        "Use SpoolDirCsvSourceConnector with csv.separator.char=32, csv.skip.lines for the lines that begin with #, "
        "and a value.schema with the names of the line #Fields."
    )


class FilePulseSourceConnector(_NotServed):
    """Files by FilePulse, whose filters and listings are not served."""

    why = "FilePulse's readers and filters are not served."
    remedy = (
        "Use SpoolDirSourceConnector: input.path for fs.listing.directory.path, input.format=csv or lines for "
        "tasks.reader.class and its DelimitedRow filter, cleanup.policy for fs.cleanup.policy.class, transforms for "
        "other filters (docs/spool.md)."
    )
