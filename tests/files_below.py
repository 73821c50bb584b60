"""Files of a folder that a running worker changes."""

from __future__ import annotations

import os
from pathlib import Path


def files_below(folder: Path) -> list[Path]:
    """The files below a folder, sorted; a folder that goes away meanwhile has none, where `Path.rglob` would fail."""
    return sorted(Path(place, name) for place, _, names in os.walk(folder) for name in names)
