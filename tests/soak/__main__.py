"""`python -m tests.soak`: run the soak, or make picture and table of a run that was made."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import fields
from pathlib import Path

from tests.bench.processes import die_on_sigterm
from tests.soak.report import report
from tests.soak.run import Run, Scale


def main(arguments: list[str]) -> int:
    """Run, and return 0 if all bounds hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where all of the run is kept; by default a new one in /tmp")
    parser.add_argument("--report", action="store_true", help="only make picture and table of the run in --folder")
    for field in fields(Scale):
        name = f"--{field.name.replace('_', '-')}"
        if isinstance(field.default, bool):
            parser.add_argument(name, action="store_true")
        else:
            parser.add_argument(name, type=type(field.default), default=field.default, help="by default %(default)s")
    given = vars(parser.parse_args(arguments))
    only_report, folder = given.pop("report"), given.pop("folder")
    folder = (folder or Path(tempfile.mkdtemp(prefix="headrace-soak-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if not only_report:
        die_on_sigterm()
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} in {folder}", flush=True)
        try:
            Run(folder, Scale(**given)).go()
        except BaseException:
            if (folder / "samples.jsonl").exists():
                told(folder)
            raise
    return 0 if told(folder) else 1


def told(folder: Path) -> bool:
    """Make and print what is to be told of a run; True if all bounds hold."""
    text, holds = report(folder)
    print(text)
    print(f"picture: {folder / 'soak.svg'}; table: {folder / 'soak.md'}; samples: {folder / 'samples.jsonl'}")
    return holds


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
