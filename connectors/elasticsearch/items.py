"""The answer of a bulk request: what became of each of its documents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

_CURRENT: Final = re.compile(r"current version \[(-?\d+)\]")
_FIELD: Final = re.compile(r"field \[([^\]]*)\] of type \[([^\]]*)\]")
_STRICT: Final = re.compile(r"introduction of \[([^\]]*)\]")
_PASSING_TYPES: Final = ("cluster_block_exception", "unavailable_shards_exception", "index_not_found_exception")
_PASSING_STATUSES: Final = (408, 429, 503)
"""Statuses whose reasons are about the server, not about a document."""
_NO_DOCUMENT: Final = ("invalid_index_name_exception", "index_closed_exception")


class Fate(Enum):
    """The ways that a document's action ends."""

    DONE = "done"
    CONFLICT = "conflict"
    """A document with this id is there, with a version as high or higher."""
    REFUSED = "refused"
    BUSY = "busy"
    """Another attempt may succeed."""
    FATAL = "fatal"


class Item(NamedTuple):
    """The answer to one document's action."""

    fate: Fate
    reason: str = ""
    current: int | None = None
    """For a conflict: the version that is there; None if documents are only added."""
    kind: str = ""
    """The type of the server's error."""


class PartialAnswer(Exception):
    """The answer does not tell of each document."""


_DONE: Final = Item(Fate.DONE)


def items_of(answer: Any, count: int, shows_content: bool) -> Sequence[Item] | None:
    """The fate of each of `count` documents; None if all are done. Errors: PartialAnswer."""
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list) or len(items) != count:
        told = len(items) if isinstance(items, list) else 0
        raise PartialAnswer(f"the answer tells of {told} of {count} documents")
    if answer.get("errors") is False:
        return None
    return [_item(action, told, shows_content) for item in items for action, told in item.items()]


def _item(action: str, told: Mapping[str, Any], shows_content: bool) -> Item:
    error, status = told.get("error"), told.get("status")
    if not isinstance(status, int):
        raise PartialAnswer("the answer has no status of a document")
    if error is None and (status < 300 or (action == "delete" and status == 404)):
        return _DONE
    kind = str(error.get("type", "")) if isinstance(error, dict) else ""
    reason = str(error.get("reason", "")) if isinstance(error, dict) else str(error)
    text, in_full = f"{kind}: {_shown(error, reason, shows_content)}", f"{kind}: {reason}"
    if status == 409 and action != "update":
        found = None if action == "create" else _CURRENT.search(reason)
        return Item(Fate.CONFLICT, text, None if found is None else int(found[1]), kind)
    if status in _PASSING_STATUSES or kind in _PASSING_TYPES:
        return Item(Fate.BUSY, in_full, kind=kind)
    if status == 409 or status >= 500:
        return Item(Fate.BUSY, text, kind=kind)
    if status in (400, 413) and kind not in _NO_DOCUMENT:
        return Item(Fate.REFUSED, text, kind=kind)
    return Item(Fate.FATAL, in_full, kind=kind)


def _shown(error: Any, reason: str, shows_content: bool) -> str:
    """The reason; without what it may quote of a document, unless that is wanted."""
    if shows_content:
        cause = error.get("caused_by") if isinstance(error, dict) else None
        return f"{reason}: {cause['reason']}" if isinstance(cause, dict) and cause.get("reason") else reason
    if (field := _FIELD.search(reason)) is not None:
        return f"the field {field[1]} does not fit its type {field[2]}"
    if (field := _STRICT.search(reason)) is not None:
        return f"the mapping has no field {field[1]}, and takes no new ones"
    return "log.sensitive.data=true shows the server's reason"
