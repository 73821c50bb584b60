"""Client tools from PyPI as their users have them: each installed once, in an environment of its own.

Their pins (a requests of 2021, a prometheus-client of 2023) would disturb ours and each other's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Final

import pytest

from headrace.plugins.interop.jvm.jars import cache_dir

VERSIONS: Final = {
    "kafka-connect-py": "1.0.0",
    "kafka-connect-api": "0.5.10",
    "kafka-connect-cli": "0.2.5",
    "kafka-connect-healthcheck": "0.3.0",
    "kafka-connect-watcher": "0.6.0",
}


def programs(tool: str) -> Path:
    """The folder with the tool's programs and its Python; skips the test where it cannot be installed."""
    if tool == "kafka-connect-cli" and sys.version_info >= (3, 13):
        pytest.skip("kafka-connect-cli 0.2.5 imports cgi, which Python 3.13 has no more")
    folder = (
        cache_dir() / "client-tools" / f"{tool}-{VERSIONS[tool]}-py{sys.version_info.major}.{sys.version_info.minor}"
    )
    if not folder.exists():
        _install(tool, folder)
    return folder / "bin"


def run(tool: str, program: str, *arguments: str, env: dict[str, str] | None = None) -> str:
    """Run a program, which must end well; return its output."""
    ended = subprocess.run(
        [str(programs(tool) / program), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **(env or {})},
    )
    assert ended.returncode == 0, f"{program} {arguments}: {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout


def _install(tool: str, folder: Path) -> None:
    # An environment cannot be moved, so an unfinished one is known by the link that is missing.
    own = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:8]}")
    own.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", str(own)], check=True, timeout=120)
    wanted = [f"{tool}=={VERSIONS[tool]}", "setuptools<81"]  # some still import pkg_resources
    pip = [str(own / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q", *wanted]
    installed = subprocess.run(pip, capture_output=True, text=True, timeout=240, check=False)
    if installed.returncode != 0:
        pytest.skip(f"{wanted[0]} cannot be installed here: {installed.stderr.strip()[-300:]}")
    if not folder.exists():
        folder.symlink_to(own.name)
