"""The memory limit, as both versions of Linux's control groups say it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from headrace.worker.machine.memory_limit import how_ended, memory_limit

MACHINE = psutil.virtual_memory().total


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "1048576\n"}, 1 << 20),
        ("0::/\n", {"memory.max": "max\n"}, MACHINE),
        ("0::/a/b\n", {"a/memory.max": "1048576\n", "a/b/memory.max": "max\n"}, 1 << 20),
        ("0::/a/b\n", {"a/memory.max": "max\n", "a/b/memory.max": "1048576\n"}, 1 << 20),
        ("4:memory:/a\n1:cpu:/\n", {"memory/a/memory.limit_in_bytes": "1048576\n"}, 1 << 20),
        ("4:memory:/of/the/host\n", {"memory/memory.limit_in_bytes": "1048576\n"}, 1 << 20),
        ("4:memory:/\n0::/\n", {"memory/memory.limit_in_bytes": f"{2**63 - 4096}\n"}, MACHINE),
        ("", {}, MACHINE),
    ],
)
def test_the_least_limit_counts(tmp_path: Path, own: str, files: dict[str, str], limit: int) -> None:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        file = tmp_path / "groups" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert memory_limit(tmp_path / "groups", tmp_path / "own") == limit


def test_only_a_kill_is_laid_to_memory() -> None:
    assert how_ended(1) == "ended with 1"
    assert how_ended(-6) == "was killed by signal 6"
    assert "memory" in how_ended(-9)
