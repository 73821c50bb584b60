"""Directories of a topic as partitions of its table."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from headrace.connectors.hdfs.stores.store import Store


def values_of(directory: str, fields: Sequence[str]) -> tuple[str, ...] | None:
    """Return the values in `name=value/…`; None unless the directory has these names, in this order."""
    parts = [part.partition("=") for part in directory.split("/")]
    names = [unquote(name).lower() for name, _, _ in parts]
    if names != [name.lower() for name in fields] or not all(value for _, _, value in parts):
        return None
    return tuple(unquote(value) for _, _, value in parts)


def directories(store: Store, folder: str, depth: int) -> list[str]:
    """Return the directories so many levels below a folder, without looking at files in them."""
    found = [folder]
    for _ in range(depth):
        found = [entry.path for one in found for entry in store.entries(one) if entry.is_folder]
    return [path.removeprefix(f"{folder}/") for path in found] if depth else []
