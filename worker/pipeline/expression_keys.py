"""Expression keys: all that expressions depend on; tasks with equal keys share programs (`engine/shared.py`).

A key is the class and the state of a converter or transform, or the function of a task. A static method sees nothing of
its task, so topics and files make no difference to it.

Decided: only code of this product has keys, because its expressions are known to depend on nothing else; loses: a
stranger's plugin is compiled for each task, as nobody sees what else it reads, such as a file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from enum import Enum
from inspect import getattr_static
from types import MappingProxyType
from typing import Any, Final

from headrace.plugins.contracts import Plugin
from headrace.plugins.interop.conversion.decode import ConverterBinding

_PLAIN: Final = (bool, int, float, str, bytes, Enum, type(None))


class _UnsettledError(Exception):
    """A part of a state is no value: a connection, a cache, a function."""


def key_of(plugin: Plugin) -> Hashable | None:
    """Return the key of this converter, transform or predicate; None if its class and state do not settle it."""
    try:
        return _settled(plugin)
    except _UnsettledError:
        return None


def key_of_side(side: ConverterBinding) -> Hashable | None:
    """Return the key of this side's `to_records` and `to_bytes`; None if it is not settled."""
    return together(key_of(side.converter), side.class_name, side.known, side.hopeless, side.rest, side.thorough)


def key_of_function(task: object, name: str) -> Hashable | None:
    """Return the function of this name; None if it sees the task."""
    found = getattr_static(type(task), name, None)
    return found.__func__ if isinstance(found, staticmethod) and _is_ours(found.__func__) else None


def together(*keys: Hashable | None) -> Hashable | None:
    """Return the key of an expression that depends on all of these; None if one of them is not settled."""
    return None if any(key is None for key in keys) else keys


def _is_ours(code: Any) -> bool:
    return bool(code.__module__.startswith("headrace."))


def _settled(value: object) -> Hashable:
    """Return an equal key for equal values of equal types. Errors: _UnsettledError."""
    kind = type(value)
    if isinstance(value, _PLAIN):
        return kind, repr(value) if isinstance(value, float) else value
    if isinstance(value, dict | MappingProxyType):
        return kind, tuple((_settled(name), _settled(one)) for name, one in value.items())
    if isinstance(value, list | tuple):
        return kind, tuple(map(_settled, value))
    if isinstance(value, set | frozenset):
        return kind, frozenset(map(_settled, value))
    if _is_ours(kind) and (isinstance(value, Plugin) or dataclasses.is_dataclass(value)):
        return kind, _settled(vars(value))
    raise _UnsettledError
