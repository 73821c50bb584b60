"""A file that grows while faults happen."""

from __future__ import annotations

import threading
from pathlib import Path


class Growing(threading.Thread):
    """Appends lines, all different, to a file until `finish`."""

    def __init__(self, path: Path, lines_a_second: int) -> None:
        super().__init__(daemon=True)
        self.path = path
        self.count = 0
        self._step = max(1, lines_a_second // 20)
        self._over = threading.Event()
        path.touch()

    def run(self) -> None:
        with open(self.path, "ab", buffering=0) as file:
            while not self._over.wait(0.05):
                self.append(file, self._step)

    def append(self, file: object, lines: int) -> None:
        text = "".join(line(number) + "\n" for number in range(self.count, self.count + lines))
        file.write(text.encode())  # type: ignore[attr-defined]
        self.count += lines

    def finish(self) -> list[bytes]:
        """Append nothing more, and return all the lines."""
        self._over.set()
        self.join()
        return [line(number).encode() for number in range(self.count)]


def line(number: int) -> str:
    return f"{number:09d} {'x' * 90}"


def last_in(path: Path) -> int:
    """The number of the last complete line of a file to which such lines are copied; -1 if there is none."""
    if not path.exists():
        return -1
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        complete = file.read().split(b"\n")[:-1]
    return int(complete[-1][:9]) if complete else -1
