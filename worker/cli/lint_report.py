"""Prints findings: as text, as JSON, and as SARIF 2.1.0, which code hosts show beside a change."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from rich.console import Console
from rich.text import Text

import headrace
from headrace.config.lint.file_rules import FILE_RULES
from headrace.config.lint.finding import Finding, Rule, Severity
from headrace.config.lint.rules import RULES

_STYLES: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(frozen=True)
class Located:
    """A finding with its place."""

    path: Path
    line: int | None
    connector: str
    """The connector's name; empty if the file has none."""
    finding: Finding


def as_text(found: Sequence[Located]) -> str:
    """A line for each finding, one for its advice, and a last one with the counts."""
    text = StringIO()
    console = Console(file=text, force_terminal=Console().is_terminal, highlight=False, width=10_000)
    for one in found:
        said = one.finding
        place = str(one.path) if one.line is None else f"{one.path}:{one.line}"
        setting = "" if said.setting is None else f"{said.setting}: "
        console.print(
            Text.assemble(f"{place}: ", (str(said.severity), _STYLES[said.severity]), f" {setting}{said.message}"),
            Text(f"[{said.rule}]", style="dim"),
        )
        if said.advice:
            console.print(Text(f"    → {said.advice}"))
    counts = {severity: sum(one.finding.severity is severity for one in found) for severity in Severity}
    console.print(", ".join(f"{count} {severity}{'' if count == 1 else 's'}" for severity, count in counts.items()))
    return text.getvalue().rstrip("\n")


def as_json(found: Sequence[Located]) -> str:
    """One object; each finding has its file, line and connector beside the members of the REST API."""
    findings = [_members(one) for one in found]
    return json.dumps({"findings": findings}, indent=2, ensure_ascii=False)


def _members(one: Located) -> dict[str, Any]:
    place: dict[str, Any] = {"file": str(one.path)}
    place |= {} if one.line is None else {"line": one.line}
    place |= {"connector": one.connector} if one.connector else {}
    return place | one.finding.members()


def as_sarif(found: Sequence[Located]) -> str:
    """A log of SARIF 2.1.0 with one run and all rules."""
    rules: list[Rule[Any]] = [*RULES, *FILE_RULES]
    index = {rule.id: number for number, rule in enumerate(rules)}
    driver = {
        "name": "headrace lint",
        "version": headrace.__version__,
        "rules": [
            {
                "id": rule.id,
                "shortDescription": {"text": rule.summary},
                "defaultConfiguration": {"level": str(rule.severity)},
            }
            for rule in rules
        ],
    }
    results = [
        {
            "ruleId": one.finding.rule,
            "ruleIndex": index[one.finding.rule],
            "level": str(one.finding.severity),
            "message": {"text": _sentence(one.finding)},
            "locations": [{"physicalLocation": _place(one)}],
        }
        for one in found
    ]
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
    return json.dumps(log, indent=2, ensure_ascii=False)


def _sentence(finding: Finding) -> str:
    about = "" if finding.setting is None else f"{finding.setting}: "
    return " ".join(filter(None, (f"{about}{finding.message}", finding.advice)))


def _place(one: Located) -> dict[str, Any]:
    uri = one.path.absolute().as_uri() if one.path.is_absolute() else _relative(one.path)
    return {"artifactLocation": {"uri": uri}, "region": {"startLine": one.line or 1}}


def _relative(path: Path) -> str:
    """The path as a relative URI."""
    return quote(path.as_posix())


FORMATS: Final[Mapping[str, Callable[[Sequence[Located]], str]]] = {
    "text": as_text,
    "json": as_json,
    "sarif": as_sarif,
}
"""The formats by their names."""
