"""Scratch folders: one of a process that lives is never removed, one of a killed process is."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.plugins import scratch

_HOLD = """
import sys
from headrace.plugins.scratch import scratch_folder
folder = scratch_folder("test")
print(folder.name, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_lives_as_long_as_its_process(temp: Path) -> None:
    """Process ids do not count: in another PID namespace they name nobody here."""
    environment = {**os.environ, "TMPDIR": str(temp)}
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as other:
        assert other.stdout is not None
        folder = Path(other.stdout.readline().strip())
        with scratch.scratch_folder("mine") as mine:
            assert folder.is_dir()
            assert Path(mine).parent == folder.parent == temp
        other.kill()
        other.wait()
    assert folder.is_dir()
    scratch.scratch_folder("mine").cleanup()
    assert list(temp.iterdir()) == []


_BECOME = """
import os, sys
from headrace.plugins.scratch import scratch_folder
folder = scratch_folder("test")
folder.outlive_exec()
print(folder.name, flush=True)
os.execv(sys.executable, [sys.executable, "-c", "import sys; sys.stdin.read()"])
"""


def test_a_folder_lives_as_long_as_what_its_process_became(temp: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(temp)}
    with subprocess.Popen(
        [sys.executable, "-c", _BECOME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as other:
        assert other.stdout is not None
        folder = Path(other.stdout.readline().strip())
        command = Path(f"/proc/{other.pid}/cmdline")
        while b"scratch" in command.read_bytes():
            time.sleep(0.01)
        scratch.scratch_folder("mine").cleanup()
        assert folder.is_dir()
        other.kill()
        other.wait()
    scratch.scratch_folder("mine").cleanup()
    assert list(temp.iterdir()) == []


def test_a_folder_that_was_removed_before_it_was_locked_is_made_again(
    temp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, removed = scratch._locked, list[Path]()

    def removing(folder: Path) -> int | None:
        if not removed:
            folder.rmdir()
            removed.append(folder)
        return lock(folder)

    monkeypatch.setattr(scratch, "_locked", removing)
    with scratch.scratch_folder("mine") as mine:
        assert Path(mine).is_dir()
    assert removed


def test_a_small_shared_memory_is_not_used(temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = temp / "shm"
    memory.mkdir()
    monkeypatch.setattr(scratch, "_MEMORY", memory)
    with scratch.scratch_folder("rows", shared_memory=True) as folder:
        assert Path(folder).parent == memory
    monkeypatch.setattr(scratch, "_LEAST_MEMORY_BYTES", 1 << 62)
    with scratch.scratch_folder("rows", shared_memory=True) as folder:
        assert Path(folder).parent == temp


def test_a_file_system_without_locks_is_told_and_nothing_is_left(temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, closed = list[int](), list[int]()

    def no_locks(descriptor: int, _operation: int) -> None:
        opened.append(descriptor)
        raise OSError(errno.ENOLCK, "No locks available")

    close = os.close
    monkeypatch.setattr("fcntl.flock", no_locks)
    monkeypatch.setattr("os.close", lambda descriptor: (closed.append(descriptor), close(descriptor)))
    with pytest.raises(OSError, match=r"No locks available\); set TMPDIR to a local file system"):
        scratch.scratch_folder("mine")
    assert len(opened) == 1
    assert set(opened) <= set(closed)


def test_folders_that_are_always_removed_end_in_an_error(temp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_locked", lambda _folder: None)
    with pytest.raises(OSError, match="Other processes remove each new folder"):
        scratch.scratch_folder("mine")
