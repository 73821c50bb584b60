"""`headrace apply`, `headrace diff` and `headrace export`: connectors from files to a cluster, and back."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

from rich.console import Console
from rich.text import Text

from headrace.config.connector.files import named_twice, read
from headrace.config.problems import ConfigError
from headrace.config.properties import ConnectorFile
from headrace.config.values import HIDDEN
from headrace.config.worker.audit import private
from headrace.worker.cli.apply_plan import KEPT, Step, plan
from headrace.worker.cli.cluster_rest import ClusterRest, Present
from headrace.worker.cli.exits import CommandFailed
from headrace.worker.logging.redaction import VARIABLE, Redaction, secrets_of

_SIGNS: Final = {"create": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")}
_DONE: Final = {"create": "created", "update": "updated", "delete": "deleted"}


def steps_to(folder: Path, cluster: ClusterRest, prune: bool) -> list[Step]:
    """List the steps from the cluster to the files. Errors: ConfigError; CommandFailed."""
    files = _files(folder)
    return plan(files, cluster.connectors(), prune)


def show(steps: Sequence[Step], cluster: ClusterRest, console: Console, verbs: Mapping[str, str]) -> None:
    """Print what differs, with secrets hidden; `verbs` say what becomes of a connector, by action."""
    for step in steps:
        sign, colour = _SIGNS[step.action]
        console.print(Text(f"{sign} {step.name}: {verbs[step.action]}", colour), soft_wrap=True)
        if step.action != "delete":
            _show_config(console, step, cluster.secrets({**step.before, **step.after}))
        if step.state is not None:
            _show_difference(console, "state", step.state_before, step.state)
    counts = ", ".join(f"{sum(step.action == one for step in steps)} to {one}" for one in _SIGNS)
    console.print(Text(counts if steps else "no difference"))


def wrong(steps: Sequence[Step], cluster: ClusterRest) -> list[str]:
    """List what a validation by the worker finds in the configs. Errors: CommandFailed."""
    return [
        f"{step.path}: {problem}"
        for step in steps
        if step.action != "delete" and step.differences
        for problem in cluster.problems(step.after)
    ]


def carry_out(steps: Sequence[Step], cluster: ClusterRest, say: Callable[[str], None]) -> list[str]:
    """Take the steps; returns what failed, which holds up no other step."""
    failed = []
    for step in steps:
        try:
            _take(step, cluster)
        except CommandFailed as error:
            failed.append(f"{step.name}: {error}")
        else:
            say(f"{step.name}: {_DONE[step.action]}")
    return failed


def export(folder: Path, cluster: ClusterRest, say: Callable[[str], None]) -> None:
    """Write a file for each connector of the cluster. Errors: CommandFailed; OSError."""
    found = cluster.connectors()
    folder.mkdir(parents=True, exist_ok=True)
    for name, present in sorted(found.items()):
        _write(folder / file_name(name), name, present)
        for key in sorted(key for key, value in present.config.items() if value == HIDDEN):
            say(f"{name}: {key} is hidden by the worker; {KEPT} in the file keeps it as it is there")
    say(f"{len(found)} connectors were written to {folder}, readable by you only: configs may have secrets")


def file_name(connector: str) -> str:
    """Name the file of a connector: as it is called, with characters that no file can have encoded."""
    name = quote(connector, safe=" ()[]{}@+,;=!$&'")
    return f"{'%2E' + name[1:] if name.startswith('.') else name}.json"


def _files(folder: Path) -> list[ConnectorFile]:
    found = read(folder)
    if problems := named_twice(found):
        raise ConfigError(problems)
    if not found:
        raise CommandFailed(f"{folder} has no file of a connector: .json or .properties", 2)
    return found


def _take(step: Step, cluster: ClusterRest) -> None:
    if step.action == "delete":
        cluster.delete(step.name)
    elif step.action == "create":
        cluster.create(step.name, step.after, step.state)
    else:
        if step.differences:
            cluster.configure(step.name, step.after)
        if step.state is not None:
            cluster.bring(step.name, step.state)


def _show_config(console: Console, step: Step, secret: frozenset[str]) -> None:
    masked = dict.fromkeys(secret, HIDDEN)
    redaction = Redaction.of({**step.before, **step.after}, masked, secrets_of(step.before, masked))

    def shown(key: str, value: str | None) -> str | None:
        if value is None or VARIABLE.fullmatch(value):
            return value
        return HIDDEN if key in secret else redaction.hide(value)

    for key, (before, after) in step.differences.items():
        _show_difference(console, key, shown(key, before), shown(key, after))


def _show_difference(console: Console, key: str, before: str | None, after: str | None) -> None:
    for sign, colour, value in (("-", "red", before), ("+", "green", after)):
        if value is not None:
            console.print(Text(f"    {sign} {key} = {_one_line(value)}", colour), soft_wrap=True)


def _one_line(value: str) -> str:
    return value if value.isprintable() else json.dumps(value, ensure_ascii=True)


def _write(path: Path, name: str, present: Present) -> None:
    config = {key: KEPT if value == HIDDEN else value for key, value in present.config.items() if key != "name"}
    state = {} if present.state == "RUNNING" else {"initial_state": present.state}
    text = json.dumps({"name": name, "config": config, **state}, indent=2, ensure_ascii=False) + "\n"
    with open(path, "w", encoding="utf-8", opener=private) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
