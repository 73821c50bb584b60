"""The blocks of Python in docs/authors.md, each a file that its first line names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[1] / "docs" / "authors.md"
TEXT: Final = PAGE.read_text(encoding="utf-8")
BLOCKS: Final = dict(re.findall(r"(?ms)^```python\n# (\S+)\n(.*?)^```$", TEXT))
"""Their code by file name."""


def written(folder: Path, *names: str) -> Path:
    """The folder, after these blocks, or all, were written to it."""
    folder.mkdir(exist_ok=True)
    for name in names or BLOCKS:
        (folder / name).write_text(BLOCKS[name], encoding="utf-8")
    return folder


def lines(name: str) -> int:
    """The number of lines of code in a block."""
    return sum(1 for line in BLOCKS[name].splitlines() if line.strip() and not line.strip().startswith("#"))
