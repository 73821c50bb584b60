"""A worker of a command's own: the process that production runs, with its files in a folder of the command."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from headrace.worker.embedded.standalone_process import STOP_S, StandaloneProcess


class WrongUse(Exception):
    """The command cannot be run as given (exit code 2)."""


class PipeFailed(Exception):
    """A connector failed or the worker ended by itself (exit code 1)."""


@contextlib.contextmanager
def home(keep: Path | None, command: str) -> Iterator[Path]:
    """Yield the folder of one run of a command, removed afterwards unless it is kept."""
    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WrongUse(f"--keep {keep} cannot be made ({error.strerror}); name another folder") from error
        yield keep.absolute()
        return
    with tempfile.TemporaryDirectory(prefix=f"headrace-{command}-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


class OwnWorker(StandaloneProcess):
    """A standalone worker that, as a context manager, runs inside and is stopped at the end."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.stop():
            print(f"headrace: the worker did not stop within {STOP_S:.0f} s and was killed", file=sys.stderr)

    def check_alive(self) -> None:
        """Errors: PipeFailed with the end of its log, if it has ended."""
        if (code := self.exit_code()) is not None:
            raise PipeFailed(f"the worker ended by itself with code {code}; the end of its log:\n{self.log_end()}")
