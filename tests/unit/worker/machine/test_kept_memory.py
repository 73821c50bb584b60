"""Memory that is freed stays with the process."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from headrace.worker.machine.kept_memory import keep_freed_memory

_PROGRAM = """
import resource, sys
from headrace.worker.machine.kept_memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    batch = [bytes(50_000) for _ in range(200)]
    large = bytes(4 << 20)
    del batch, large
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] == "keep":
    keep_freed_memory()
faults()
print(min(faults() for _ in range(3)))
"""


def _pages(how: str) -> int:
    """The number of pages that a program gets from the kernel for a batch of 14 MB that is not its first."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="only glibc's allocator can be told")
def test_a_batch_after_another_takes_no_new_memory() -> None:
    assert _pages("give back") > 1000
    assert _pages("keep") < 100


def test_other_allocators_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    keep_freed_memory()
