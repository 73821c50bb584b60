"""Renders the chart as `helm template` does, with Jinja: the chart uses only what both can.

helm is a Go program that no registry of Python has, and takes long to build, so no test runs helm itself.
"""

from __future__ import annotations

import hashlib
import json
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import jinja2
import yaml

CHART: Final = Path(__file__).parents[3] / "deploy" / "helm" / "headrace"

_EXPRESSIONS: Final = {
    ".Release.Name": "release",
    "$key": "key",
    "$value": "value",
    ".Values.image | quote": "values.image | tojson",
    ".Values.replicas": "values.replicas",
    ".Values.scratchSize": "values.scratchSize",
    ".Values.serviceAccount": "values.serviceAccount",
    'ne .Values.serviceAccount ""': '(values.serviceAccount != "") | tojson',
    "toJson .Values.properties | sha256sum": "values.properties | sha256sum",
    "toYaml .Values.resources | nindent 12": "values.resources | indented(12)",
    '.Values.secretName | default (printf "%s-secrets" .Release.Name)': 'values.secretName or release ~ "-secrets"',
}
_ACTIONS: Final = {
    "range $key, $value := .Values.properties": "for key, value in values.properties | dictsort",
    "if .Values.networkPolicy": "if values.networkPolicy",
    "if .Values.serviceAccount": "if values.serviceAccount",
    "if .Values.serviceMonitor": "if values.serviceMonitor",
}
_ENDS: Final = {"for": "endfor", "if": "endif"}
_ACTION: Final = re.compile(r"\{\{(-?) *(.*?) *(-?)\}\}")


def rendered(release: str, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The objects of a release; `values` are laid over those of the chart."""
    given = {**yaml.safe_load((CHART / "values.yaml").read_text()), **(values or {})}
    found = []
    for template in sorted((CHART / "templates").iterdir()):
        text = _environment().from_string(_as_jinja(template.read_text())).render(release=release, values=given)
        found += [one for one in yaml.safe_load_all(text) if one is not None]
    return found


def _as_jinja(text: str) -> str:
    opened: list[str] = []

    def translated(match: re.Match[str]) -> str:
        left, action, right = match.groups()
        if action == "end":
            return f"{{%{left} {_ENDS[opened.pop()]} {right}%}}"
        if action in _ACTIONS:
            opened.append(_ACTIONS[action].partition(" ")[0])
            return f"{{%{left} {_ACTIONS[action]} {right}%}}"
        return f"{{{{{left} {_EXPRESSIONS[action]} {right}}}}}"

    return _ACTION.sub(translated, text)


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.filters["sha256sum"] = lambda value: hashlib.sha256(json.dumps(value).encode()).hexdigest()
    environment.filters["indented"] = lambda value, by: "\n" + textwrap.indent(yaml.safe_dump(value), " " * by)
    return environment
