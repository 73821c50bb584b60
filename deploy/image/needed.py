"""Copies the sources that one step of the image's build runs, so that a change of others does not repeat the step.

python needed.py OUTPUT MODULE [FOLDER...]: MODULE, the modules of Headrace that it imports when it is imported, and of
the FOLDERs all files that are not Python.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_PACKAGE: Final = "headrace"
_TIME: Final = (1_700_000_000, 1_700_000_000)


def main(output: Path, module: str, folders: Sequence[Path]) -> None:
    """Copy them from the current folder, all with the same time."""
    importlib.import_module(module)
    here = Path.cwd()
    for file in [*_imported(), *_beside(folders)]:
        target = output / file.relative_to(here)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    # The links in the package stand for its rooms.
    for link in (here / _PACKAGE).iterdir():
        if link.is_symlink() and (output / link.name).exists():
            (output / _PACKAGE / link.name).symlink_to(link.readlink())
    for made in [output, *output.rglob("*")]:
        os.utime(made, _TIME, follow_symlinks=False)


def _imported() -> Iterator[Path]:
    for name, module in sorted(sys.modules.items()):
        if name.split(".")[0] == _PACKAGE and getattr(module, "__file__", None):
            yield Path(os.path.realpath(str(module.__file__)))


def _beside(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path.resolve() for path in folder.iterdir() if path.is_file() and path.suffix != ".py")


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    sys.dont_write_bytecode = True
    main(Path(sys.argv[1]), sys.argv[2], [Path(one) for one in sys.argv[3:]])
