"""Requests to a store, some side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_AT_ONCE: Final = 32
"""A data node takes up to half a second to close one file."""
_T = TypeVar("_T")


def each(act: Callable[[_T], object], items: Iterable[_T]) -> None:
    """Do this with each item, some side by side; the first error counts, once all have ended."""
    todo = list(items)
    if len(todo) < 2:
        for item in todo:
            act(item)
        return
    with ThreadPoolExecutor(min(_AT_ONCE, len(todo)), thread_name_prefix="files") as pool:
        for done in [pool.submit(act, item) for item in todo]:
            done.result()
