"""An interpreter with a pip that knows some packages, for tests of what is asked of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def sha256(line: str) -> str:
    """The checksum of a package of this pip."""
    return hashlib.sha256(line.encode()).hexdigest()


def locked(line: str) -> str:
    return f"{line} --hash=sha256:{sha256(line)}"


class FakePip:
    """Stands for all commands that are run, which it keeps."""

    def __init__(self) -> None:
        self.there = {"pip": "23.0", "setuptools": "65.5.0"}
        """The packages of a new environment."""
        self.closure = ["tap-one==1.0", "requests==2.32.0"]
        """The packages that any requirement comes to."""
        self.scripts: dict[str, list[str]] = {}
        self.refuses: str = ""
        self.lacks: str = ""
        self.calls: list[Sequence[str]] = []
        self.installed: list[str] = []

    def run(self, command: Sequence[str]) -> tuple[int, str, str]:
        """Answer as the command would. Errors: none; an exit code says so."""
        self.calls.append(command)
        if "venv" in command:
            Path(command[-1], "bin").mkdir(parents=True)
        elif "-c" in command:
            return 0, self._asked(command[command.index("-c") + 1 :]), ""
        elif "check" in command:
            return (1, self.lacks, "") if self.lacks else (0, "", "")
        elif self.refuses and any(self.refuses in one for one in command):
            return 1, "", "ERROR: No matching distribution found"
        elif "--report" in command:
            wanted = self.closure if "--no-deps" not in command else [one for one in command if "==" in one]
            Path(command[command.index("--report") + 1]).write_text(json.dumps(report(wanted)))
        elif "--requirement" in command:
            return self._install(Path(command[-1]).read_text().splitlines())
        return 0, "", ""

    def _asked(self, asked: Sequence[str]) -> str:
        if "entry_points" in asked[0]:
            return json.dumps(self.scripts.get(asked[1], [asked[1]]))
        return json.dumps(self.there) if "distributions" in asked[0] else "Python 3.9 on linux x86_64"

    def _install(self, lines: list[str]) -> tuple[int, str, str]:
        for line in lines:
            plain, _, given = line.partition(" --hash=sha256:")
            if given and given != sha256(plain):
                wrong = f"    {plain} from https://x/y.whl:\n        Expected sha256 {given}\n"
                return 1, "", f"ERROR: THESE\n{wrong}             Got        {sha256(plain)}\n"
        self.installed += lines
        return 0, "", ""


def report(lines: Sequence[str]) -> dict[str, Any]:
    """The report of pip of packages such as `requests==2.32.0`, or `x @ URL`."""
    install = []
    for line in lines:
        name, _, version = line.partition("==")
        name, _, url = name.partition(" @ ")
        origin: dict[str, Any] = {"url": url or f"https://files/{name}"}
        if url.startswith("https://git"):
            origin |= {"vcs_info": {"vcs": "git", "commit_id": "abc"}, "subdirectory": "in"}
        else:
            origin["archive_info"] = {"hashes": {"sha256": sha256(line)}}
        install.append(
            {"metadata": {"name": name, "version": version}, "download_info": origin, "is_direct": bool(url)}
        )
    environment = {"python_version": "3.11", "sys_platform": "linux", "platform_machine": "x86_64"}
    return {"install": install, "environment": environment}
