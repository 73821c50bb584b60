"""A standalone worker's name, kept in a file beside its offsets.

Its sink tasks are static members of their groups under this name. So no other worker may have it: neither one on
another machine or in another container with the same host name and paths, nor one that shares the offset file.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import uuid
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

SUFFIX: Final = ".member"
_NAME: Final = re.compile(r"standalone-[0-9a-f]{16}")


class WorkerIdentity:
    """Name that passes to the next worker with the same offset file; unique while this worker runs."""

    def __init__(self, offsets: Path) -> None:
        self._held: int | None = None
        self.name = f"standalone-{uuid.uuid4().hex[:16]}"
        path = offsets.with_name(offsets.name + SUFFIX)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._hold(path)
        except BlockingIOError:
            log.warning(
                "Another worker with the same offset.storage.file.filename (%s) runs: each overwrites the offsets of "
                "sources that the other stores. Give each worker its own file.",
                offsets,
            )
        except OSError as error:
            log.warning(
                "Sink tasks will wait for consumer.session.timeout.ms after a crash, because this worker's name "
                "cannot be kept: %s",
                error,
            )

    def _hold(self, path: Path) -> None:
        """Lock the file until `release`, and take its name, or write this one if it has none. Errors: OSError."""
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            kept = os.read(file, 100).decode("ascii", "replace").strip()
            if _NAME.fullmatch(kept):
                self.name = kept
            else:
                os.ftruncate(file, 0)
                os.pwrite(file, f"{self.name}\n".encode(), 0)
        except OSError:
            os.close(file)
            raise
        self._held = file

    def release(self) -> None:
        """Release the name to another worker."""
        held, self._held = self._held, None
        if held is not None:
            os.close(held)
