"""Paths of the REST API below a worker's URL."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

_SEGMENT_SAFE: Final = "!$&'()*+,;=:@"


def connector_path(name: str) -> str:
    """Return the path of a connector below any worker's URL."""
    return f"/connectors/{quote(name, safe=_SEGMENT_SAFE)}"


def flow_path(source: str, target: str) -> str:
    """Return the path of a MirrorMaker flow below the URL of any process that runs it."""
    return f"/{quote(source, safe=_SEGMENT_SAFE)}/{quote(target, safe=_SEGMENT_SAFE)}"
