"""Class path of Java hosts, prepared by `python -m headrace.connectors.java.class_path`."""

from __future__ import annotations

import sys
from pathlib import Path

from headrace.plugins.interop.jvm.jars import Unavailable, fetch
from headrace.plugins.interop.jvm.java_compiler import compiled


def class_path() -> list[Path]:
    """Return Connect's jars and the jar of `host/*.java`, fetched or compiled if needed. Errors: Unavailable."""
    connect = fetch("java")
    return [*connect, compiled("java-host", Path(__file__).with_name("host"), connect)]


def main() -> int:
    """Prepare the class path; return 0, or 3 with the reason on stderr."""
    try:
        class_path()
    except Unavailable as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
