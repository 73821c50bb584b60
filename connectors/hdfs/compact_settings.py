"""The settings that keep a sink's small files few; Headrace's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.setting_group import MEDIUM, SHORT, SettingGroup
from headrace.config.settings import Setting, Type
from headrace.config.validators import Range, ZeroOr

_MOST_FILES: Final = 10_000
_DEFAULT_BYTES: Final = 128 << 20
NOT_IN_S3: Final = (
    "In S3 a second try of records overwrites the objects of the first by their names, and those of merged ones would "
    "be others"
)


@dataclass(frozen=True)
class CompactSettings:
    """The limits by which small files of a partition in one directory are merged."""

    files: int
    """So many small files are too many."""
    size_bytes: int
    """A file of this size is not small, and none becomes twice as large."""


def compact_settings(group: SettingGroup) -> tuple[Setting, ...]:
    """The settings for stores that rename."""
    return (
        group(
            "compact.files",
            Type.INT,
            0,
            MEDIUM,
            SHORT,
            "Compact Files",
            "Headrace's: as soon as a directory has so many files of a partition of a topic, one after the other and "
            "smaller than compact.size.bytes, they are merged into fewer; 0: never.",
            ZeroOr(2, _MOST_FILES),
            dependents=("compact.size.bytes",),
        ),
        group(
            "compact.size.bytes",
            Type.LONG,
            _DEFAULT_BYTES,
            MEDIUM,
            SHORT,
            "Compact Size",
            "Headrace's: files of so many bytes are large enough for compact.files, which merges smaller ones until "
            "they have so many together.",
            Range(1),
        ),
    )


def compact_of(values: Mapping[str, Any]) -> CompactSettings | None:
    """The limits of merging; None: no file is merged."""
    files = values["compact.files"]
    return CompactSettings(files, values["compact.size.bytes"]) if files else None
