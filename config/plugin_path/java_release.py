"""The oldest Java that can load all classes of a plugin's jars, by the version in each class file.

Classes for newer releases alone (`META-INF/versions/`) do not count: an older Java does not look at them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

_FIRST: Final = 44
"""The class file version before that of Java 1; that of Java 17 is 61."""
_MAGIC: Final = b"\xca\xfe\xba\xbe"


class JavaNeed(NamedTuple):
    """A release of Java, and the jar for which it is needed."""

    release: int
    jar: str


def java_need(jars: Iterable[Path]) -> JavaNeed | None:
    """The highest release that a class in these jars was compiled for; None if there is no class.

    A damaged jar is passed over, because the scan for plugins tells it.
    """
    needs = [JavaNeed(release, jar.name) for jar in jars if (release := _release_of(jar))]
    return max(needs, key=lambda need: need.release, default=None)


def _release_of(jar: Path) -> int:
    highest = 0
    try:
        with zipfile.ZipFile(jar) as packed:
            for entry in packed.infolist():
                if entry.filename.endswith(".class") and not _is_apart(entry.filename):
                    with packed.open(entry) as file:
                        head = file.read(8)
                    if head[:4] == _MAGIC:
                        highest = max(highest, int.from_bytes(head[6:8], "big") - _FIRST)
    except (OSError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return highest
    return highest


def _is_apart(name: str) -> bool:
    return name.startswith("META-INF/versions/") or name.endswith("module-info.class")
