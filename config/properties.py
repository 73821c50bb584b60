"""Reads Java's `.properties` files, and the files that describe a connector."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import javaproperties

from headrace.config.problems import ConfigError, Problem

_REQUEST: Final = {"name", "config", "initial_state"}
_STATES: Final = ("RUNNING", "PAUSED", "STOPPED")


@dataclass(frozen=True)
class ConnectorFile:
    """A connector to create, as in the body of `POST /connectors`."""

    name: str
    config: dict[str, str]
    initial_state: str | None = None
    path: str = ""


def read_properties(path: str | Path) -> dict[str, str]:
    r"""The properties of a file as Java reads it: ISO-8859-1 with `\uXXXX`; of equal keys the last counts.

    Errors: ConfigError that names the file.
    """
    return parse_properties(_bytes(path), str(path))


def parse_properties(data: bytes, where: str) -> dict[str, str]:
    """The properties in these bytes. Errors: ConfigError that names `where`."""
    try:
        return dict(javaproperties.loads(data))
    except (ValueError, javaproperties.InvalidUEscapeError) as e:
        remedy = r"Write \uXXXX with four hexadecimal digits, and a backslash as \\."
        raise ConfigError(Problem(where, None, f"It is not a properties file: {e}", remedy)) from e


def read_connector(path: str | Path) -> ConnectorFile:
    """The connector in a file: JSON (a flat map or a request to create one), else properties.

    Errors: ConfigError that names the file.
    """
    data = _bytes(path)
    # Java tries JSON first and reads anything else as properties: a broken JSON file fails with a missing name.
    # Only JSON begins like this.
    if data.lstrip().startswith((b"{", b"[")) or str(path).endswith(".json"):
        return _request(_json(data, path), path)
    return _named(parse_properties(data, str(path)), path)


def _bytes(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as e:
        message = f"The file cannot be read: {e.strerror or e}."
        raise ConfigError(Problem(str(path), None, message, "Check its name and who may read it.")) from e


def _json(data: bytes, path: str | Path) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError as e:
        raise ConfigError(Problem(str(path), None, f"It is not JSON: {e}.", "Mend it at that place.")) from e
    if not isinstance(value, dict):
        remedy = 'Write {"name": …, "config": {…}}, or one flat object with the connector\'s settings.'
        raise ConfigError(Problem(str(path), None, "It is JSON, but not an object.", remedy))
    return value


def _request(value: dict[str, Any], path: str | Path) -> ConnectorFile:
    if not isinstance(value.get("config"), dict):
        return _named(_texts(value, path), path)
    if unknown := sorted(set(value) - _REQUEST):
        remedy = f"It may have {', '.join(sorted(_REQUEST))}; remove the others."
        raise ConfigError(Problem(str(path), None, f"It has unknown members: {', '.join(unknown)}.", remedy))
    config = _texts(value["config"], path)
    name = value.get("name")
    if name is not None and config.get("name", name) != name:
        message = f"Connector name configuration ({config['name']}) doesn't match connector name in the file ({name})."
        raise ConfigError(Problem(str(path), None, message, "Remove name from config."))
    state = value.get("initial_state")
    if state is not None and str(state).upper() not in _STATES:
        remedy = f"Choose one of {', '.join(_STATES)}."
        raise ConfigError(Problem(str(path), None, f"initial_state {state} is not known.", remedy))
    named = _named(config if name is None else {**config, "name": str(name)}, path)
    return replace(named, initial_state=None if state is None else str(state).upper())


def _texts(value: Mapping[str, Any], path: str | Path) -> dict[str, str]:
    """Numbers and booleans as text, as in REST bodies. Errors: ConfigError for null, arrays and objects."""
    problems = [
        Problem(f"{path}: {key}", None, "It must be a text, a number or a boolean.", "Write it in quotes.")
        for key, item in value.items()
        if not isinstance(item, str | int | float)
    ]
    if problems:
        raise ConfigError(problems)
    return {key: item if isinstance(item, str) else json.dumps(item) for key, item in value.items()}


def _named(config: dict[str, str], path: str | Path) -> ConnectorFile:
    name = config.get("name", "").strip()
    if not name:
        raise ConfigError(Problem(str(path), None, "It names no connector.", "Add a line such as name=my-connector."))
    return ConnectorFile(name, config, path=str(path))
