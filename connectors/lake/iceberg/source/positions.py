"""Offsets of the Iceberg source: how far a table is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from headrace.plugins.contracts import SourceOffset, SourcePartition

ROOT: Final = -1
"""The snapshot before the first one."""
OFFSET_TYPE: Final = pa.struct(
    [
        ("uuid", pa.string()),
        ("snapshot", pa.int64()),
        ("whole", pa.bool_()),
        ("file", pa.int32()),
        ("row", pa.int64()),
        ("done", pa.bool_()),
    ]
)
_KINDS: Final[Mapping[str, type]] = {"uuid": str, "snapshot": int, "whole": bool, "file": int, "row": int, "done": bool}


@dataclass(frozen=True)
class Position:
    """The next row to read."""

    uuid: str
    """The table's; empty if an operator has set the offset without it."""
    snapshot: int
    whole: bool = False
    """True if all files of the snapshot are read, False if only those that it added."""
    file: int = 0
    """The number of the file among these, in the order of their paths."""
    row: int = 0
    done: bool = True
    """True if the snapshot is read to its end; `file` and `row` then say nothing."""

    def stored(self) -> dict[str, Any]:
        """Return the offset."""
        return asdict(self)


def position_of(offset: SourceOffset) -> Position:
    """Return the position that an offset says; one with a snapshot alone is after it."""
    given = {name: offset[name] for name in _KINDS if offset.get(name) is not None}
    return Position(**{"uuid": "", "done": not {"file", "row", "whole"} & given.keys(), **given})


def partition_of(table: str) -> SourcePartition:
    """Return the source partition of a table."""
    return {"table": table}


def check_offset(partition: Mapping[str, Any], offset: Mapping[str, Any] | None, tables: tuple[str, ...]) -> None:
    """Refuse what is no offset of these tables. Errors: ValueError."""
    if set(partition) != {"table"} or partition["table"] not in tables:
        names = ", ".join(tables)
        raise ValueError(f'The partition {dict(partition)} is none of this connector: write {{"table": …}}: {names}.')
    if offset is None:
        return
    wrong = [name for name, value in offset.items() if type(value) is not _KINDS.get(name)]
    small = [name for name in ("file", "row", "snapshot") if isinstance(offset.get(name), int) and offset[name] < ROOT]
    if wrong or small or "snapshot" not in offset or min(offset.get("file", 0), offset.get("row", 0)) < 0:
        raise ValueError(
            f'The offset {dict(offset)} is none of a table: write {{"snapshot": ID}} to go on after that snapshot '
            f"({ROOT}: with the first one), or an offset as GET shows it."
        )
