"""`headrace doctor --connector FILE`: errors in a connector's config, and gaps of its outside system."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.config.lint.finding import Severity
from headrace.config.problems import ConfigError
from headrace.config.properties import read_connector, read_properties
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.interop.discovery import Plugins
from headrace.worker.cli.doctor import ReportLine, Verdict
from headrace.worker.errors import BadRequest, ConnectError
from headrace.worker.herder.plugins import InstalledPlugins, worker_config
from headrace.worker.logging.redaction import WORKER, secrets_of

if TYPE_CHECKING:
    from headrace.plugins.contracts import Connector

_STATES = {True: Verdict.OK, None: Verdict.WARN, False: Verdict.FAIL}


def examine(connector_file: Path, worker_file: Path | None) -> Iterator[ReportLine]:
    """Check a file's connector, for the worker of another file."""
    try:
        given = read_connector(connector_file)
        config = None if worker_file is None else _worker(worker_file)
    except ConfigError as error:
        yield ReportLine("connector", Verdict.FAIL, str(error))
        return
    found = Plugins.of_worker(config.values) if config else Plugins.discover()
    installed = InstalledPlugins(found, config)
    WORKER.learn(secrets_of(given.config))
    try:
        validation = installed.validate(given.config)
        made = installed.connector(given.config["connector.class"], given.config.get("connector.plugin.version"))()
        resolved = installed.variables.resolve(given.config)
    except (BadRequest, ConnectError, ConfigError, KeyError) as error:
        yield ReportLine("connector", Verdict.FAIL, WORKER.hide(str(error)))
        return
    for one in installed.lint(given.config, validation=validation):
        verdict = Verdict.FAIL if one.severity is Severity.ERROR else Verdict.WARN
        yield ReportLine(one.setting or "config", verdict, WORKER.hide(one.message), WORKER.hide(one.advice))
    if not validation.error_count:
        yield ReportLine("config", Verdict.OK, f"{given.config['connector.class']}: nothing is wrong with its settings")
        made.worker = installed.worker
        yield from _found(made, resolved)


def _found(made: Connector, config: dict[str, str]) -> Iterator[ReportLine]:
    try:
        for finding in made.diagnose(config):
            yield ReportLine(finding.what, _STATES[finding.good], WORKER.hide(finding.found), finding.advice)
    except Exception as error:  # a plugin's
        yield ReportLine("connector", Verdict.FAIL, WORKER.hide(f"{type(error).__name__}: {error}"))


def _worker(path: Path) -> WorkerConfig:
    given = read_properties(path)
    return worker_config(given, WorkerConfig.distributed if "group.id" in given else WorkerConfig.standalone)
