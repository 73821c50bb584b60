"""Plugins in single files of Python on `plugin.path`: found by what their classes derive from, and not run for it.

A class is a plugin if it derives, also by way of others of its file, from a class of `_BASES`, and its name does not
begin with `_`; a Connector of the contracts if its `task` is a class of the file. A config names it by the class's own
name.
"""

from __future__ import annotations

import ast
import importlib.util
import logging
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_CONNECTOR: Final = "connector"
_TASK: Final = " task"
_BASES: Final = {
    "Connector": _CONNECTOR,
    "SourceTask": f"source{_TASK}",
    "SinkTask": f"sink{_TASK}",
    "RecordSource": "source",
    "RecordSink": "sink",
    "RecordTransform": "transformation",
    "RecordPredicate": "predicate",
    "RecordConverter": "converter",
    "Transform": "transformation",
    "Predicate": "predicate",
    "Converter": "converter",
    "HeaderConverter": "header_converter",
    "ConfigProvider": "config_provider",
}


def plugins_in(file: Path) -> Iterator[tuple[str, EntryPoint]]:
    """Yield the kind of each plugin of a file, and what loads it; a file that is none of Python's is told of."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (OSError, SyntaxError, ValueError) as error:
        log.error("The plugins in %s cannot be listed: %s. They are left out.", file, error)
        return
    found = list(_classes(tree))
    if not found:
        return
    if not file.stem.isidentifier():
        log.error("%s is left out: %s is no name that Python can import. Rename the file.", file, file.stem)
        return
    if other := _other_module(file):
        log.error("%s is left out: its name is that of the module %s. Give the file another name.", file, other)
        return
    for name, kind in found:
        yield kind, EntryPoint(name, f"{file.stem}:{name}", f"headrace.{kind}")


def _classes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield name and kind of each plugin."""
    kinds = dict(_BASES)
    for alias in (alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names):
        if alias.asname and alias.name in _BASES:
            kinds[alias.asname] = _BASES[alias.name]
    for node in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        kind = next((kinds[base] for base in map(_last_name, node.bases) if base in kinds), None)
        if kind is None:
            continue
        kinds[node.name] = kind
        if kind == _CONNECTOR:
            task = kinds.get(_task_of(node), "")
            kind = task.removesuffix(_TASK) if task.endswith(_TASK) else kind
        if not (node.name.startswith("_") or kind == _CONNECTOR or kind.endswith(_TASK)):
            yield node.name, kind


def _task_of(node: ast.ClassDef) -> str:
    """Return what a connector's class names as its `task`."""
    for one in node.body:
        if isinstance(one, ast.Assign) and "task" in map(_last_name, one.targets):
            return _last_name(one.value)
    return ""


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def _other_module(file: Path) -> str | None:
    """The file of another module of this name, which an import would find first."""
    try:
        spec = importlib.util.find_spec(file.stem)
    except (ImportError, ValueError):
        return None
    origin = None if spec is None else spec.origin or "of Python"
    return None if origin is None or origin == str(file) else origin
