"""Class path of Java hosts, prepared by `python -m headrace.connectors.java.class_path`."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

_GROUP: Final = "headrace.java_host"


def class_path() -> list[Path]:
    """Return Connect's jars, fetched if needed, and the jar of `host/*.java`, compiled if needed.

    The worker provides them under entry points, as for plugins, because this room imports no worker.

    Errors: what the worker raises if it cannot provide them.
    """
    provided = {entry.name: entry.load() for entry in entry_points(group=_GROUP) if entry.name in ("jars", "compiled")}
    connect: list[Path] = provided["jars"]("java")
    return [*connect, provided["compiled"]("java-host", Path(__file__).with_name("host"), connect)]


def main() -> int:
    """Prepare the class path; return 0, or 3 with the reason on stderr."""
    try:
        class_path()
    except Exception as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
