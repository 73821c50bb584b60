"""`headrace preview FILE`: asks a running worker what a connector's file would do to real records, and shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.config.properties import ConnectorFile
from headrace.worker.cli.exits import CommandFailed
from headrace.worker.cli.login import Login
from headrace.worker.cli.worker_rest import Refused, WorkerRest, plugin_path
from headrace.worker.kafka.record_text import printable

_TIMEOUT_S: Final = 300.0
"""Longer than a worker lets a preview take."""
_LONGEST: Final = 400


@dataclass(frozen=True)
class Options:
    """The options of the command."""

    login: Login
    records: int
    begin: str
    diff: bool
    sample: Path | None


def ask(connector: ConnectorFile, options: Options) -> dict[str, Any]:
    """Get the preview from the worker. Errors: CommandFailed."""
    config: dict[str, Any] = {"name": connector.name, **connector.config}
    if options.sample is not None:
        config["sample"] = list(_lines(options.sample))
    query = {"records": str(options.records), "from": options.begin, "diff": str(options.diff).lower()}
    with WorkerRest(options.login, _TIMEOUT_S) as rest:
        try:
            found = rest.asked("PUT", f"{plugin_path(connector.config)}/preview", config, query)
        except Refused as error:
            raise CommandFailed(str(error), 2 if error.status in (400, 404) else 1) from error
        with rest.understood():
            return {member: found[member] for member in ("kind", "records", "effects", "notes")}


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file of JSON lines. Errors: CommandFailed."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"--sample {path} cannot be read: {error}", 2) from error
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise CommandFailed(f"--sample {path}, line {number} is no JSON: {error}", 2) from error
        if not isinstance(record, dict):
            raise CommandFailed(f'--sample {path}, line {number} is no object such as {{"key": …, "value": …}}', 2)
        yield record


def show(preview: Mapping[str, Any], console: Console) -> None:
    """Print a table for each record, then what would be done for all of them."""
    for number, record in enumerate(preview["records"], 1):
        console.print(Text(f"{number}. {_origin(record)}", style="bold"))
        table = Table("stage", "key", "value", "headers", box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for stage in record["stages"]:
            table.add_row(
                _stage(stage), *(Text(_json(stage[name])) for name in ("key", "value")), Text(_headers(stage))
            )
        console.print(table)
        for text in _ends(record):
            console.print(Text(f"   {text}"))
    for effect in preview["effects"]:
        console.print(Text(_effect(effect)))
    for note in preview["notes"]:
        console.print(Text(printable(note), style="yellow"))


def failed(preview: Mapping[str, Any]) -> bool:
    """True if a record would fail its task."""
    return any((one["error"] or {}).get("outcome") == "failed task" for one in preview["records"])


def _origin(record: Mapping[str, Any]) -> str:
    if record["topic"] is not None:
        return printable(f"{record['topic']}-{record['partition']} @{record['offset']}")
    if record["source_partition"] is not None:
        return printable(f"{_json(record['source_partition'])} {_json(record['source_offset'])}")
    return "sample"


def _stage(stage: Mapping[str, Any]) -> Text:
    named = f" {stage['name']}" if stage["name"] else ""
    passed = " (its predicate passed it by)" if stage["applied"] is False else ""
    target = f" to {stage['topic']}" if stage["stage"] == "written" else ""
    return Text(printable(f"{stage['stage']}{named}{passed}{target}"))


def _ends(record: Mapping[str, Any]) -> Iterator[str]:
    for stage in record["stages"]:
        for side, known in stage["registered"].items():
            state = "registered" if known["id"] is not None else "the registry would take it"
            yield printable(f"{side}: subject {known['subject']}, {state if known['takes'] else known['why']}")
    if record["filtered"]:
        yield printable(f"filtered out by {record['filtered']}")
    if (error := record["error"]) is not None:
        yield printable(f"{error['outcome']}: {error['stage']}: {error['message']}")
    for effect in record["effects"]:
        yield _effect(effect)
    for one in record["differences"] or ():
        yield printable(f"{one['path']}: {_json(one['before'])} -> {_json(one['after'])}")
    if record["differences"] == []:
        yield "no difference"


def _effect(effect: Mapping[str, Any]) -> str:
    detail = _json(effect["detail"]) if effect["detail"] else ""
    return printable(f"{effect['action']} {effect['target']} {detail}".rstrip())


def _headers(stage: Mapping[str, Any]) -> str:
    return printable(", ".join(f"{one['key']}={one['value']}" for one in stage["headers"]))


def _json(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return printable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text) - _LONGEST} more characters)")
