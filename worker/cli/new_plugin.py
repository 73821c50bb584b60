"""`headrace new`: a package with a plugin, its entry point, and tests that pass."""

from __future__ import annotations

import importlib.util
import keyword
import re
from pathlib import Path
from string import Template
from typing import Final, NamedTuple

_TEMPLATES: Final = Path(__file__).with_name("templates")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_][A-Za-z0-9]+)*")


class WrongNameError(ValueError):
    """No package can be made under this name; the text says why."""


class _Kind(NamedTuple):
    group: str
    class_key: str
    try_it: str = ""
    """A line of its README."""


_RUN: Final = "\n    headrace run $module.py --config"
KINDS: Final = {
    "source": _Kind("source", "connector.class", f"{_RUN} topic=numbers     # shows its records"),
    "sink": _Kind("sink", "connector.class", f"{_RUN} path=/tmp/out     # writes lines of JSON that you type"),
    "transform": _Kind("transformation", "transforms.….type"),
    "converter": _Kind("converter", "value.converter"),
}


def make(kind: str, name: str, parent: Path) -> Path:
    """Make the package in a new folder of this name; returns it. Errors: WrongNameError, OSError."""
    module, class_name = _names(name)
    folder = parent / name
    if folder.exists():
        raise WrongNameError(f"{folder} is there already; choose another name, or another --folder")
    about = KINDS[kind]
    words = {"kind": kind, "name": name, "module": module, "class_name": class_name, "group": about.group}
    words["try_it"] = Template(about.try_it).substitute(words)
    words["class_key"] = about.class_key
    files = {
        "pyproject.toml": "pyproject.toml",
        "README.md": "README.md",
        f"{module}.py": f"{kind}.py",
        f"tests/test_{module}.py": f"{kind}_test.py",
    }
    texts = {file: (_TEMPLATES / f"{template}.txt").read_text(encoding="utf-8") for file, template in files.items()}
    (folder / "tests").mkdir(parents=True)
    for file, text in texts.items():
        (folder / file).write_text(Template(text).substitute(words), encoding="utf-8")
    return folder


def _names(name: str) -> tuple[str, str]:
    """The names of the module and of its class."""
    if not _NAME.fullmatch(name):
        raise WrongNameError(f"{name!r} is no name for a package: write letters and digits, as in shop-prices")
    module = name.replace("-", "_").lower()
    if keyword.iskeyword(module) or importlib.util.find_spec(module) is not None:
        raise WrongNameError(f"{name!r} is the name of a module of Python, or of one that is installed; choose another")
    return module, "".join(part[0].upper() + part[1:] for part in re.split("[-_]", name))
