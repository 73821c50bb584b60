"""The modes of Confluent's S3 source: which files are read, and the topic and partition of each.

| mode | topic and partition |
|---|---|
| RESTORE_BACKUP | the groups of `filename.regex` in the file's name; keys and headers stand in files beside it |
| GENERIC | the topic of the first expression of `topic.regex.list` that matches the whole path |
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.config.name_regex import name_regex
from headrace.connectors.hdfs.errors import StoreError

RESTORE: Final = "RESTORE_BACKUP"
GENERIC: Final = "GENERIC"
_END: Final = re.compile(r"(?:\.[a-z0-9]+)?\.parquet|\.(?:avro|json|txt|bin)(?:\.gz)?", re.ASCII)
_BESIDE: Final = re.compile(rf".+\.(keys|headers)(?:{_END.pattern})", re.ASCII)


class Destination(NamedTuple):
    """The topic of a file's records, and their partition if the file tells it."""

    topic: str
    partition: int | None = None


@dataclass(frozen=True)
class Backup:
    """The files of one of the modes."""

    file_name: str | None
    """`filename.regex`; None: GENERIC."""
    routes: tuple[tuple[str, str], ...] = ()
    """A topic and an expression for paths each."""

    def destination(self, path: str) -> Destination | None:
        """Return where a file's records go; None if it is not read.

        Errors: StoreError for a name that does not match `filename.regex`.
        """
        if self.file_name is None:
            return next((Destination(topic) for topic, one in self.routes if name_regex(one).match(path)), None)
        told = self.told(path)
        if told is None:
            raise StoreError(
                f"The name of {path} tells no topic and partition by filename.regex={self.file_name}. Give an "
                "expression whose groups are topic and partition, move the file elsewhere, or read it by mode=GENERIC"
            )
        return told

    def told(self, path: str) -> Destination | None:
        """Return what a file's name tells by `filename.regex`; None if it tells nothing, or none is given."""
        found = None if self.file_name is None else name_regex(self.file_name).match(path.rpartition("/")[2])
        if found is None or not found[1] or not (found[2] or "").isdecimal():
            return None
        return Destination(found[1], int(found[2]))


def is_beside(path: str) -> bool:
    """True for a file of keys or headers of another file."""
    return _BESIDE.fullmatch(path) is not None


def stem_of(path: str) -> str:
    """The path without the end that tells format and compression."""
    for found in _END.finditer(path):
        if found.end() == len(path):
            return path[: found.start()]
    return path


def kinds_beside(stem: str, paths: Iterable[str]) -> dict[str, str]:
    """Map `keys` and `headers` to the files that hold those of the file with this stem."""
    found = {}
    for path in paths:
        kind, _, rest = path.removeprefix(f"{stem}.").partition(".")
        if kind in ("keys", "headers") and _END.fullmatch(f".{rest}"):
            found[kind] = path
    return found
