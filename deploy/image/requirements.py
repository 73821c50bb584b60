"""Prints what Headrace depends on, one requirement a line: the image's first layer changes with these alone.

python requirements.py pyproject.toml
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path


def main(pyproject: Path) -> None:
    """Print the requirements of this project file."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    print(*project["dependencies"], sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
