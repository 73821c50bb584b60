"""`headrace lint`: judges files by the rules of `config/lint/`, alone, with a cluster's facts, or by a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.lint.file_rules import FILE_RULES, FileView
from headrace.config.lint.files import ConfigFile, FileKind, files_in, read_file
from headrace.config.lint.finding import Finding, Severity
from headrace.config.lint.properties_files import mirror_findings, worker_findings, worker_of
from headrace.config.lint.rules import in_order
from headrace.config.lint.view import Surroundings
from headrace.config.problems import ConfigError
from headrace.config.properties import read_properties
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.mirror_maker import CONNECTOR_CLASSES
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.discovery import Plugins
from headrace.worker.cli.lint_report import FORMATS, Located
from headrace.worker.cli.login import Login
from headrace.worker.cli.worker_rest import WorkerRest, plugin_path
from headrace.worker.herder.plugins import InstalledPlugins
from headrace.worker.logging.redaction import WORKER, secrets_of

_OF_NONE: Final = Surroundings()


@dataclass(frozen=True)
class Options:
    """The command's arguments."""

    paths: Sequence[Path]
    worker_file: Path | None = None
    bootstrap: str | None = None
    command_config: Path | None = None
    login: Login | None = None
    format: str = "text"
    strict: bool = False


def run(options: Options, echo: Callable[[str], None]) -> int:
    """Print the findings; returns 2 for errors, 1 for warnings if strict, else 0.

    Errors: ConfigError for files that the options name; RetriableError; CommandFailed.
    """
    found = list(findings(options))
    echo(FORMATS[options.format](found))
    there = {one.finding.severity for one in found}
    if Severity.ERROR in there:
        return 2
    return 1 if options.strict and Severity.WARNING in there else 0


def findings(options: Options) -> Iterator[Located]:
    """Yield the findings of all files, in the files' order. Errors: as `run`."""
    found = [(read_file(path), is_found) for path, is_found in files_in(options.paths)]
    for file, _ in found:
        WORKER.learn(secrets_of(file.given))
    with nullcontext() if options.login is None else WorkerRest(options.login) as rest:
        judge = _judge(options, [file for file, _ in found], rest)
        before: list[ConfigFile] = []
        for file, is_found in found:
            view = FileView(file, before, is_found)
            of_file = [finding for rule in FILE_RULES for finding in rule.findings(view)]
            for one in in_order([*of_file, *judge(file)]):
                yield Located(file.path, file.lines.get(one.setting or ""), file.name, _hidden(one))
            before.append(file)


def _judge(
    options: Options, files: Sequence[ConfigFile], rest: WorkerRest | None
) -> Callable[[ConfigFile], Sequence[Finding]]:
    """Return the function that judges the content of a file."""
    worker = None if options.worker_file is None else _worker_config(options.worker_file)
    plugins = Plugins.discover() if worker is None else Plugins.of_worker(worker.values)
    installed = InstalledPlugins(plugins, worker)
    around = replace(_around(options), others={one.name: one.config for one in _connectors(files)})

    def of_connector(config: Mapping[str, str | None]) -> Sequence[Finding]:
        if rest is not None and config.get("connector.class"):
            return _asked(rest, config)
        return installed.lint(config, around)

    def judge(file: ConfigFile) -> Sequence[Finding]:
        match file.kind:
            case FileKind.CONNECTOR:
                return of_connector(file.config)
            case FileKind.WORKER:
                return worker_findings(file.given)
            case FileKind.MIRROR:
                return mirror_findings(file.given, _keys(plugins), installed.lint)
        return ()

    return judge


def _asked(rest: WorkerRest, config: Mapping[str, str | None]) -> Sequence[Finding]:
    """Return what the worker finds, by its plugins, settings, connectors and cluster. Errors: CommandFailed."""
    said = rest.asked("PUT", f"{plugin_path(config)}/lint", dict(config))
    with rest.understood():
        return [
            Finding(one["rule"], Severity(one["severity"]), one.get("setting"), one["message"], one["advice"])
            for one in said["findings"]
        ]


def _keys(plugins: Plugins) -> set[str]:
    """The settings of MirrorMaker's connectors."""
    classes = [plugins.find("connector", name).load() for name in CONNECTOR_CLASSES.values()]
    return {setting.name for one in classes for setting in one.settings}


def _connectors(files: Sequence[ConfigFile]) -> Iterator[ConfigFile]:
    return (one for one in files if one.kind is FileKind.CONNECTOR and one.name)


def _around(options: Options) -> Surroundings:
    if options.bootstrap is None:
        return _OF_NONE
    from headrace.plugins.interop.kafka.cluster_facts import cluster_facts

    given = {} if options.command_config is None else read_properties(options.command_config)
    WORKER.learn(secrets_of(given))
    client = ClientConfig("admin", {**given, "bootstrap.servers": options.bootstrap})
    try:
        return Surroundings(cluster=cluster_facts(client.librdkafka()))
    except RetriableError as error:
        raise RetriableError(f"--bootstrap-server {error}") from error


def _worker_config(path: Path) -> WorkerConfig:
    props = read_properties(path)
    WORKER.learn(secrets_of(props))
    try:
        return worker_of(props)
    except ConfigError as error:
        raise error.within(str(path)) from None


def _hidden(finding: Finding) -> Finding:
    return replace(finding, message=WORKER.hide(finding.message), advice=WORKER.hide(finding.advice))
