"""Plugins in files of Python on `plugin.path`: found by what their classes derive from, and not run for it.

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

from headrace.plugins.interop.requirements import declared_in

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
    """Yield name and kind of each plugin."""
    kinds = dict(_BASES)
    for alias in (alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names):
        if alias.asname and alias.name in _BASES:
            kinds[alias.asname] = _BASES[alias.name]
    for node in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        kind = next((kinds[base] for base in map(_last_name, node.bases) if base in kinds), None)
        if kind is None:
            continue
        if kind == _CONNECTOR:
            task = kinds.get(_task_of(node), "")
            kind = task.removesuffix(_TASK) if task.endswith(_TASK) else kind
        kinds[node.name] = kind
        if not (node.name.startswith("_") or kind == _CONNECTOR or kind.endswith(_TASK)):
            yield node.name, kind


def _task_of(node: ast.ClassDef) -> str:
    """Return what a connector's class names as its `task`."""
    for one in node.body:
        targets = one.targets if isinstance(one, ast.Assign) else [one.target] if isinstance(one, ast.AnnAssign) else []
        if "task" in map(_last_name, targets) and (value := getattr(one, "value", None)) is not None:
            return _last_name(value)
    return ""


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


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
