"""The wheel, built and installed as a user does it, in an environment with nothing else: two commands make a pipe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.image.base_image import ROOT

pytestmark = [pytest.mark.image, pytest.mark.timeout(3600)]

LINES = 1000


def test_two_commands_make_a_pipe(tmp_path: Path) -> None:
    """The wheel of a clone: without what is not committed."""
    clone, env = tmp_path / "clone", tmp_path / "env"
    run("git", "clone", "--quiet", str(ROOT), str(clone))
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(clone))
    (wheel,) = tmp_path.glob("headrace-*.whl")
    venv.create(env, with_pip=True)
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"line {number}\n" for number in range(LINES)))
    run(str(env / "bin/pip"), "install", "--quiet", str(wheel))
    told = run(str(env / "bin/headrace"), "quickstart", "--once", "--json", str(lines), cwd=tmp_path)
    assert json.loads(told)["records"] == LINES


def run(*command: str, cwd: Path | None = None) -> str:
    """Return the command's output; of this environment it sees only where Java and the network are."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL", "HEADRACE"))}
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
