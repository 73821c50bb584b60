"""Programs that tests need from Debian packages, which are installed where they are missing; no service is started."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def program_path(program: str) -> str:
    """Its path, empty where there is none; Debian keeps PostgreSQL's out of PATH."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join([*map(str, places), os.environ.get("PATH", os.defpath), "/usr/sbin"])
    return shutil.which(program, path=path) or ""


def installed(programs: Sequence[str], packages: Sequence[str]) -> str:
    """The first of the programs; their packages are installed first where one is missing."""
    with _one_at_a_time():
        if not all(map(program_path, programs)):
            assert os.geteuid() == 0, f"{programs} are not all there: sudo apt-get install {' '.join(packages)}"
            with _no_services():
                environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
                for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
                    done = subprocess.run(["apt-get", *command], env=environment, capture_output=True, text=True)
                    assert done.returncode == 0, done.stdout + done.stderr
    missing = [program for program in programs if not program_path(program)]
    assert not missing, f"{' '.join(packages)} did not bring {missing}"
    return program_path(programs[0])


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Of the processes that run tests side by side, one installs packages."""
    with open(Path(tempfile.gettempdir(), "headrace-test-packages.lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _no_services() -> Iterator[None]:
    """Packages that are installed inside start no service of theirs; Debian's own way to say so."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()
