"""Plugins in files of Python on `plugin.path`: found by what their classes derive from, and not run for it.

A class is a plugin if it derives, also by way of others of its file, from a class of `_BASES`, and its name does not
begin with `_`. A connector over Arrow batches (`contracts.Connector`) is of the kind of its attribute `task`. The
connector's class name is the class's own.
"""

from __future__ import annotations

import ast
import importlib.util
import logging
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

from headrace.plugins.interop.requirements import declared_in

log = logging.getLogger(__name__)

_BASES: Final = {
    "RecordSource": "source",
    "RecordSink": "sink",
    "Transform": "transformation",
    "RecordTransform": "transformation",
    "Predicate": "predicate",
    "RecordPredicate": "predicate",
    "Converter": "converter",
    "RecordConverter": "converter",
    "HeaderConverter": "header_converter",
    "ConfigProvider": "config_provider",
    "SourceTask": "task of a source",
    "SinkTask": "task of a sink",
    "Connector": "connector",
}
_OF_TASK: Final = {"task of a source": "source", "task of a sink": "sink"}


def plugins_in(file: Path, module: str = "") -> Iterator[tuple[str, EntryPoint]]:
    """Yield the kind of each plugin of a file, and what loads it; why a file is left out is logged.

    `module`: the name under which the file is imported, by default its own.
    """
    module = module or file.stem
    try:
        source = file.read_bytes()
        found = list(_classes(ast.parse(source, str(file))))
        if found:
            declared_in(source.decode("utf-8-sig"))
    except (OSError, SyntaxError, ValueError) as error:
        log.error("The plugins in %s cannot be listed: %s. They are left out.", file, error)
        return
    if not found:
        return
    if not file.stem.isidentifier() or not all(part.isidentifier() for part in module.split(".")):
        log.error("%s is left out: %s is no name that Python can import. Rename the file.", file, module)
        return
    if other := _other_module(file, module):
        log.error("%s is left out: its name is that of the module %s. Give the file another name.", file, other)
        return
    for name, kind in found:
        yield kind, EntryPoint(name, f"{module}:{name}", f"headrace.{kind}")


def _classes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    kinds = dict(_BASES)
    for alias in (alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names):
        if alias.asname and alias.name in _BASES:
            kinds[alias.asname] = _BASES[alias.name]
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        bases = (ast.unparse(base).rpartition(".")[2] for base in node.bases)
        kind = next((kinds[base] for base in bases if base in kinds), None)
        if kind == "connector":
            kind = _OF_TASK.get(kinds.get(_task_of(node), ""), kind)
        if kind is not None:
            kinds[node.name] = kind
            if not node.name.startswith("_") and kind != "connector" and kind not in _OF_TASK:
                yield node.name, kind


def _task_of(connector: ast.ClassDef) -> str:
    """The name of the class that its attribute `task` is."""
    for node in connector.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(one, ast.Name) and one.id == "task" for one in targets):
            value = getattr(node, "value", None)
            return "" if value is None else ast.unparse(value).rpartition(".")[2]
    return ""


def _other_module(file: Path, module: str) -> str | None:
    """The file of another module of this name, which an import would find first."""
    top, _, inside = module.partition(".")
    own = file.with_name("__init__.py") if inside else file
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    origin = None if spec is None else spec.origin or "of Python"
    return None if origin is None or origin == str(own.absolute()) else origin
