"""The settings that keep a table's small files and old snapshots few; Headrace's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.config.setting_group import MEDIUM, SHORT, SettingGroup
from headrace.config.settings import Settings, Type
from headrace.config.validators import Range, ZeroOr

FILES: Final = "compact.files"
BYTES: Final = "compact.size.bytes"
SNAPSHOTS: Final = "compact.snapshots.ms"
_MOST_FILES: Final = 10_000
_DEFAULT_BYTES: Final = 128 << 20


_GROUP: Final = SettingGroup("Maintenance")
SETTINGS: Final = Settings(
    _GROUP(
        FILES,
        Type.INT,
        0,
        MEDIUM,
        SHORT,
        "Compact Files",
        "Headrace's: each time that a task has brought so many files to a table, partitions with at least so many "
        "that are smaller than compact.size.bytes, or hold deletes, have them replaced by fewer, with the deletes "
        "carried out; 0: never.",
        ZeroOr(2, _MOST_FILES),
        dependents=(BYTES,),
    ),
    _GROUP(
        BYTES,
        Type.LONG,
        _DEFAULT_BYTES,
        MEDIUM,
        SHORT,
        "Compact Size",
        "Headrace's: files of so many bytes are large enough for compact.files.",
        Range(1),
    ),
    _GROUP(
        SNAPSHOTS,
        Type.LONG,
        0,
        MEDIUM,
        SHORT,
        "Snapshot Age",
        "Headrace's: snapshots that are older than so many milliseconds are expired, but for the newest of each "
        "branch, and their files are deleted, each time that compact.files (without it 100) files have come to a "
        "table; 0: never.",
        Range(0),
    ),
)


@dataclass(frozen=True)
class CompactSettings:
    """The limits of maintenance."""

    files: int
    """So many small files and files of deletes of a partition are too many; 0: never."""
    size_bytes: int
    """A file of this size is not small."""
    snapshots_ms: int
    """Older snapshots are forgotten; 0: none."""

    @classmethod
    def of(cls, config: Mapping[str, str]) -> CompactSettings | None:
        """Return the limits in a connector's config; None: there is nothing to do. Errors: ConfigError."""
        values = SETTINGS.parse(config)
        made = cls(values[FILES], values[BYTES], values[SNAPSHOTS])
        return made if made.files or made.snapshots_ms else None
