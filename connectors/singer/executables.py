"""The executables of taps and targets: only what an operator put on `plugin.path` is ever run.

Decided: a config names an executable on `plugin.path` and no command line, because who may create a connector must not
run what he likes as the worker's user; loses: a tap that is installed elsewhere, which a link there brings back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem

PLUGIN_PATH: Final = "plugin.path"
RECORD: Final = "headrace-plugin.json"
"""The file of `headrace plugins install` in a plugin's folder; its member `executable` names the one to run."""
_BIN: Final = "env/bin"


def executable(setting: str, name: str, worker: Mapping[str, Any]) -> Path:
    """Find what this value of a setting names: an installed tap or target, one of its executables, or a path.

    Errors: ConfigError that names the setting.
    """
    elements = [Path(one).expanduser().absolute() for one in worker.get(PLUGIN_PATH) or ()]
    found = [Path(name)] if os.sep in name else list(dict.fromkeys(_named(name, elements)))
    if len(found) > 1:
        where = ", ".join(str(one.parents[2]) for one in found)
        raise _refused(setting, name, f"Several plugins have it: {where}.", "Name the plugin's folder in its place.")
    if not found or not os.access(found[0], os.X_OK) or not found[0].is_file():
        remedy = f"Install it with: headrace plugins install {name.rpartition(os.sep)[2]}"
        raise _refused(setting, name, f"There is no such executable on {PLUGIN_PATH}.", remedy)
    # By its own name: a link on the path leads where the operator wants.
    if ".." in found[0].parts or not any(found[0].is_relative_to(element) for element in elements):
        raise _refused(setting, name, f"It lies outside of {PLUGIN_PATH}.", "Have the operator link it there.")
    return found[0]


def _named(name: str, elements: list[Path]) -> Iterator[Path]:
    for element in elements:
        if name not in ("", ".", "..") and (installed := _installed(element / name)) is not None:
            yield installed
            return
    for element in elements:
        for folder in sorted(element.iterdir()) if element.is_dir() else ():
            if _installed(folder) is not None and (folder / _BIN / name).is_file():
                yield folder / _BIN / name


def _installed(folder: Path) -> Path | None:
    """Return the executable of a plugin that was installed as a whole; None if it is none of Singer's."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return folder / _BIN / str(record["executable"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _refused(setting: str, name: str, why: str, remedy: str) -> ConfigError:
    return ConfigError(Problem(setting, name, why, remedy))
