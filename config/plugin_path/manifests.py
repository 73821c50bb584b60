"""Reads the manifests in `META-INF/services`, which name plugins so that no class need be read."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Final

from headrace.config.plugin_path.archives import ClassSource
from headrace.config.plugin_path.kinds import TYPES

log = logging.getLogger(__name__)

SERVICES: Final = "META-INF/services/"
_CLASS_NAME: Final = re.compile(r"[^\W\d][\w$]*(\.[^\W\d][\w$]*)*")


def declared(archive: ClassSource) -> Iterator[tuple[str, str]]:
    """Yield the kinds and class names that an archive's manifests declare, in the order of `TYPES`.

    Errors: BrokenArchiveError.
    """
    if not archive.holds(f"{SERVICES}org.apache.kafka."):
        return
    for kind, java_type in TYPES.items():
        data = archive.read(f"{SERVICES}{java_type}")
        if data is not None:
            yield from ((kind, name) for name in _class_names(archive, java_type, data))


def _class_names(archive: ClassSource, java_type: str, data: bytes) -> list[str]:
    names: dict[str, None] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        name = line.partition("#")[0].strip()
        if name and not _CLASS_NAME.fullmatch(name):
            log.error(
                "The manifest %s in %s names %r, which is no class. It is left out.", java_type, archive.path, name
            )
        elif name:
            names[name] = None
    return list(names)
