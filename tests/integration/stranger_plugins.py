"""Plugins of the tests' own, as a stranger brings them: a folder for `plugin.path`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

CHOOSY: Final = "org.example.ChoosySinkConnector"
TELLING: Final = "org.example.Telling"


def installed(place: Path, module: Path, entries: Mapping[str, Mapping[str, str]]) -> Path:
    """The value for `plugin.path`, after the module was put there; `entries` has class names to objects, by kind."""
    name = module.stem
    info = place / name / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (place / name / module.name).write_bytes(module.read_bytes())
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    groups = {
        kind: "".join(f"{java} = {name}:{python}\n" for java, python in classes.items())
        for kind, classes in entries.items()
    }
    text = "".join(f"[headrace.{kind}]\n{lines}" for kind, lines in groups.items())
    (info / "entry_points.txt").write_text(text, encoding="utf-8")
    return place


def choosy(place: Path) -> Path:
    """The value for `plugin.path` with the sink that says which records it does not take."""
    module = Path(__file__).with_name("choosy_plugin.py")
    return installed(place, module, {"sink": {CHOOSY: "ChoosySinkConnector", TELLING: "Telling"}})
