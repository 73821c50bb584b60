"""The packages that pip resolves, as lines of the lock file, and the installation of exactly those.

A line is one of pip's requirements files: `requests==2.32.0 --hash=sha256:…`, or `x @ URL` for what was asked for by
its URL. A repository of Git is locked by its commit, and has no checksum.

Decided: the one file is locked that pip chose, because its report has no other; loses: a lock file for several kinds of
machines, if a package has a file for each.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from packaging.utils import canonicalize_name

from headrace.plugins.interop.jvm.jars import Unavailable
from headrace.worker.machine.plugin_files import WrongChecksumError

_LINE: Final = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)(?:===?(?P<version>[\w.!+-]+)| @ (?P<url>[^\s-]\S*))"
    r"(?P<hash> --hash=sha256:[0-9a-f]{64})?"
)
_OTHER_FILE: Final = re.compile(r"^ +(\S.*?) (?:from|\().*:\n +Expected sha256 (\w+)\n(?:.*or.*\n)* +Got +(\w+)", re.M)
_PYTHON: Final = (
    "import platform as p, sys; print('Python', '.'.join(map(str, sys.version_info[:2])), 'on', sys.platform, "
    "p.machine())"
)
_SHOWN_LINES: Final = 12


class PipFailedError(Exception):
    """Pip cannot install what is needed; the text has its last lines."""


@dataclass(frozen=True)
class Packages:
    """Packages in exactly one version each."""

    lines: tuple[str, ...] = ()
    made_for: str = ""
    """The Python and the kind of machine that they were resolved for; empty if that was not written down."""

    @property
    def versions(self) -> dict[str, str]:
        """Their versions by name; empty for what was asked for by its URL."""
        return {canonicalize_name(one["name"]): one["version"] or "" for one in map(_parsed, self.lines)}

    @property
    def unproved(self) -> list[str]:
        """The lines without a checksum or a commit: of an older version of Headrace, or of an index that has none."""
        return [one for one in self.lines if not _parsed(one)["hash"] and " @ git+" not in one]

    @property
    def shown(self) -> tuple[str, ...]:
        """Their lines without the checksums."""
        return tuple(one.partition(" --hash=")[0] for one in self.lines)

    def without(self, names: Mapping[str, str]) -> Packages:
        """The others than those of these names."""
        return Packages(tuple(one for one in self.lines if name_of(one) not in names), self.made_for)


def name_of(line: str) -> str:
    """The canonical name of a line's package. Errors: ValueError."""
    return canonicalize_name(_parsed(line)["name"])


def _parsed(line: str) -> Mapping[str, str]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError(f"{line!r} names no package in one version, such as requests==2.32.0 --hash=sha256:…")
    return match.groupdict()


def python_of(interpreter: str) -> str:
    """The Python of an interpreter and the kind of machine, as in `Packages.made_for`. Errors: OSError."""
    code, said, _ = run([interpreter, "-c", _PYTHON])
    return said.strip() if code == 0 else "another"


def resolved(python: str, requirements: Sequence[str], options: Sequence[str] = ()) -> Packages:
    """Everything that these requirements need, as pip would install it; nothing is changed.

    Errors: PipFailedError, Unavailable.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-pip-") as scratch:
        report = Path(scratch, "report.json")
        pip(python, "install", "--quiet", "--dry-run", "--report", str(report), *options, *requirements)
        told: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
    of = told["environment"]  # of the interpreter that pip runs in
    made_for = f"Python {of['python_version']} on {of['sys_platform']} {of['platform_machine']}"
    return Packages(tuple(sorted(map(_line, told["install"]), key=str.lower)), made_for)


def _line(found: Mapping[str, Any]) -> str:
    name, version, origin = found["metadata"]["name"], found["metadata"]["version"], found["download_info"]
    inside = f"#subdirectory={origin['subdirectory']}" if "subdirectory" in origin else ""
    if "vcs_info" in origin:
        return f"{name} @ {origin['vcs_info']['vcs']}+{origin['url']}@{origin['vcs_info']['commit_id']}{inside}"
    kept = f"{name} @ {origin['url']}{inside}" if found["is_direct"] else f"{name}=={version}"
    sha256 = origin.get("archive_info", {}).get("hashes", {}).get("sha256")
    return f"{kept} --hash=sha256:{sha256}" if sha256 else kept


def install(python: str, packages: Packages, target: Path | None = None) -> None:
    """Install exactly these, into the interpreter's environment or into a folder, and refuse another checksum.

    Errors: WrongChecksumError, PipFailedError, Unavailable.
    """
    proved = [one for one in packages.lines if _parsed(one)["hash"]]
    others = [one for one in packages.lines if one not in proved]
    for lines, checking in ((proved, ["--require-hashes"]), (others, [])):
        if lines:
            with tempfile.TemporaryDirectory(prefix="headrace-pip-") as scratch:
                (file := Path(scratch, "requirements.txt")).write_text("\n".join(lines), encoding="utf-8")
                into = ["--target", f"{scratch}/target"] if target else []
                pip(python, "install", "--quiet", "--no-deps", *checking, *into, "--requirement", str(file))
                if target:  # pip itself passes over what another run of it has put there
                    shutil.copytree(f"{scratch}/target", target, dirs_exist_ok=True)


@contextmanager
def as_locked(what: str, packages: Packages, python: str, anew: str) -> Iterator[None]:
    """Say of an error that it is about what the lock file has, for which Python that is, and what to do."""
    try:
        yield
    except (PipFailedError, WrongChecksumError) as error:
        is_alike = packages.made_for in ("", found := python_of(python))
        why = "" if is_alike else f" It was locked for {packages.made_for}, and this is {found}: use one as that."
        raise type(error)(
            f"{what} cannot be installed as the lock file has it: {error}\nNothing was installed.{why} Take an index "
            f"that has the same files, or lock it anew here: {anew}"
        ) from error


def pip(python: str, *arguments: str) -> str:
    """Run the pip of an interpreter; returns what it says. Errors: PipFailedError, WrongChecksumError, Unavailable."""
    if python == sys.executable and importlib.util.find_spec("pip") is None:
        raise Unavailable(f"pip is not in this environment: run `{sys.executable} -m ensurepip` first")
    code, said, complaint = run([python, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments])
    if code == 0:
        return said
    if others := _OTHER_FILE.findall(complaint):
        raise WrongChecksumError(
            "; ".join(f"the sha256 of {one} is {got}, not {wanted}" for one, wanted, got in others)
        )
    lines = [one for one in (complaint.strip() or said).splitlines() if one.strip() and not one.startswith("WARNING:")]
    raise PipFailedError("\n".join(["pip cannot install what is needed:", *lines[-_SHOWN_LINES:]]))


def run(command: Sequence[str]) -> tuple[int, str, str]:
    """Run a command without input; returns its exit code, output and complaint. Errors: OSError."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    return done.returncode, done.stdout, done.stderr
