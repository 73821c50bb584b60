"""A process may open as many files as its user may."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import resource, sys
from headrace.worker.machine.open_files import allow_open_files

soft, hard = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
allow_open_files()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(("soft", "hard", "now"), [(256, 900, 900), (900, 900, 900)])
def test_the_soft_limit_is_raised_to_the_hard_one(soft: int, hard: int, now: int) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(soft), str(hard)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(now), str(hard)]
