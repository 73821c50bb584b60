"""Fetches the pinned jars of `headrace.config.jars` into a cache folder that all checkouts share.

Ivy, which pyspark carries, does the downloads. It is given the whole closure as single artifacts without descriptors
(`usepoms="false"`): half the requests, nothing to resolve, no host named here. A jar counts only if its SHA-256 is the
pinned one, at each start: a user who could write to the cache could set a changed jar's size and times, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from headrace.config.jars import Jar, pinned

MINIMUM_JAVA: Final = 17
WORKERS: Final = ("kafka", "spark", "compiler")
"""The sets that each worker and its embedded broker need."""
_ATTEMPTS: Final = 2
_DONE = re.compile(r"\[SUCCESSFUL \] [^!]+!(\S+)")
_NO_ROUTE = re.compile(r"UnknownHost|NoRouteToHost|ConnectException|SocketTimeout|timed out|Server access error", re.I)
_TROUBLE = re.compile(r"Exception|not found|error|failed", re.I)


class Unavailable(Exception):
    """The machine lacks something that Headrace needs; the text says what, where and what to do (exit code 3)."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was run once for its version."""

    path: Path
    version: int


def java_command() -> str:
    """The `java` that Spark would take: that of `JAVA_HOME` if set, else the first on `PATH`."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def find_java(minimum: int = MINIMUM_JAVA) -> Java:
    """The Java of `java_command`.

    Errors: Unavailable if there is none, it does not run, or it is older than `minimum`.
    """
    home = os.environ.get("JAVA_HOME")
    found = java_command() if home else shutil.which("java")
    advice = f"install a JDK or JRE {minimum} or newer and put it on PATH, or set JAVA_HOME to it"
    if found is None:
        raise Unavailable(f"no Java: JAVA_HOME is not set and PATH has no `java`; {advice}")
    where = f"JAVA_HOME={home}" if home else found
    try:
        version = version_of(Path(found))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"the Java at {where} does not run ({error}); {advice}") from error
    except ValueError as error:
        raise Unavailable(f"the Java at {where} does not tell its version ({error}); {advice}") from error
    if version < minimum:
        raise Unavailable(f"the Java at {where} is version {version}; {advice}")
    return Java(Path(found), version)


def version_of(java: Path) -> int:
    """The version that this `java` prints.

    Errors: OSError, subprocess.TimeoutExpired if it does not run; ValueError if it prints none.
    """
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    match = re.search(r'version "(\d+)(?:\.(\d+))?', told)
    if match is None:
        raise ValueError(repr(told.strip()[:200]))
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def cache_dir() -> Path:
    """`$HEADRACE_CACHE`, or `headrace` in the user's cache folder; its writers create it."""
    own = os.environ.get("HEADRACE_CACHE")
    if own:
        return Path(own).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "headrace"


def jar_paths(jar_set: str) -> list[Path]:
    """The paths of a set's jars once they are fetched; touches nothing."""
    folder = cache_dir() / "jars"
    return [folder / jar.file_name for jar in pinned(jar_set)]


def unverified(jar_set: str) -> list[Jar]:
    """The jars of a set that are not in the cache, or not as they are pinned."""
    folder = cache_dir() / "jars"
    return [jar for jar in pinned(jar_set) if not _is_intact(folder / jar.file_name, jar)]


def fetch(jar_set: str) -> list[Path]:
    """Fetch and verify the jars of a set; returns their paths in the order of their coordinates.

    Errors: Unavailable without Java, network, a writable cache; if everybody can write to the cache; if a download is
    not the pinned one.
    """
    folder = cache_dir() / "jars"
    _refuse_open(folder.parent, folder)
    if unverified(jar_set):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with _locked(folder) as lock:
                _remove_damaged(pinned(jar_set), folder)
                for attempt in range(1, _ATTEMPTS + 1):
                    wanted = unverified(jar_set)
                    if not wanted:
                        break
                    _download(jar_set, wanted, folder, lock, last=attempt == _ATTEMPTS)
        except OSError as error:
            raise Unavailable(
                f"the jar cache {folder} cannot be used ({error}); make it writable or set HEADRACE_CACHE"
            ) from error
    return jar_paths(jar_set)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[IO[str]]:
    """Hold the lock, one process at a time; the system frees it when the holder and its Ivy have ended."""
    with open(folder / ".lock", "w", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("headrace: another process is fetching jars; waiting for it", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def _refuse_open(*folders: Path) -> None:
    """Errors: Unavailable if others can change the jars that a JVM of this process is about to run."""
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            if folder.stat().st_mode & stat.S_IWOTH:
                raise Unavailable(
                    f"everybody can write to the jar cache {folder}: its jars could be changed while they are used; "
                    f"set HEADRACE_CACHE to a folder of your own, which may be a new one: {cache_dir() / 'headrace'}"
                )


def _is_intact(path: Path, jar: Jar) -> bool:
    try:
        return _sha256(path) == jar.sha256
    except FileNotFoundError:
        return False
    except PermissionError as error:
        raise Unavailable(
            f"the jar {path} cannot be read ({error.strerror}); make it readable for this user, or set HEADRACE_CACHE "
            "to a folder of your own"
        ) from error


def _remove_damaged(jars: Sequence[Jar], folder: Path) -> None:
    for jar in jars:
        path = folder / jar.file_name
        if path.exists() and not _is_intact(path, jar):
            print(f"headrace: {path} is damaged; it is fetched again", file=sys.stderr)
            path.unlink()


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download(jar_set: str, wanted: Sequence[Jar], folder: Path, lock: IO[str], *, last: bool) -> None:
    """Move the jars that Ivy could fetch into the folder; the last attempt raises if one is still missing."""
    ivy = folder.parent / "ivy"
    ivy.mkdir(exist_ok=True)
    output = _run_ivy(jar_set, wanted, ivy, lock)
    bad: list[Jar] = []
    for jar in wanted:
        for got in (ivy / jar.group / jar.artifact).glob(f"*/{jar.file_name}"):
            if _sha256(got) == jar.sha256:
                os.replace(got, folder / jar.file_name)
            else:
                got.unlink()
                bad.append(jar)
    _remove_damaged(wanted, folder)
    still = [jar.coordinates for jar in wanted if not (folder / jar.file_name).exists()]
    if not still:
        shutil.rmtree(ivy, ignore_errors=True)
    elif bad and last:
        names = ", ".join(jar.coordinates for jar in bad)
        raise Unavailable(
            f"what was downloaded for {names} is not what is pinned (SHA-256 differs); "
            "look for a proxy or mirror between here and Maven Central that alters files, then run this again"
        )
    elif not bad:
        raise Unavailable(_why(still, output, folder))


def _why(missing: Sequence[str], output: Sequence[str], folder: Path) -> str:
    told = (pattern.search(line) and line.strip() for pattern in (_NO_ROUTE, _TROUBLE) for line in output)
    said = next(filter(None, told), "Ivy gave no reason")
    shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    return (
        f"{len(missing)} jar(s) could not be fetched from Maven Central ({shown}): {said}. "
        "Check the network and run this again, it goes on where it stopped; behind a proxy set HTTPS_PROXY, with an "
        "own mirror set HEADRACE_IVY_SETTINGS to an ivysettings.xml, or copy the jars from another machine's cache to "
        f"{folder}"
    )


def _run_ivy(jar_set: str, wanted: Sequence[Jar], ivy: Path, lock: IO[str]) -> list[str]:
    """Run Ivy and return its output; its success shows in its cache, not in its exit code."""
    command = ivy_command(ivy, SETTINGS, _module(jar_set, wanted))
    lines: list[str] = []
    with (
        # The lock is inherited: an Ivy that outlives a killed parent still keeps others out of its cache.
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, pass_fds=[lock.fileno()]
        ) as process,
        _progress(jar_set, len(wanted)) as advance,
    ):
        assert process.stdout is not None
        try:
            for line in until_no_route(process.stdout):
                lines.append(line)
                if done := _DONE.search(line):
                    advance(done[1])
        finally:
            process.terminate()
    return lines


SETTINGS: Final = """<ivysettings>
<settings defaultResolver="central"/>
<timeout-constraints>
<timeout-constraint name="bounded" connectionTimeout="10000" readTimeout="60000"/>
</timeout-constraints>
<resolvers><ibiblio name="central" m2compatible="true" usepoms="false" timeoutConstraint="bounded"/></resolvers>
</ivysettings>
"""


def _module(jar_set: str, wanted: Sequence[Jar]) -> str:
    dependencies = "\n".join(
        f"<dependency org={quoteattr(jar.group)} name={quoteattr(jar.artifact)} rev={quoteattr(jar.version)}"
        f' transitive="false">{_artifact(jar)}</dependency>'
        for jar in wanted
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        f'<info organisation="headrace" module={quoteattr(jar_set)}/>\n'
        '<configurations><conf name="default"/></configurations>\n'
        f'<dependencies defaultconf="default->default">\n{dependencies}\n</dependencies></ivy-module>\n'
    )


def _artifact(jar: Jar) -> str:
    """Ivy's attributes for a file that is not the module's plain jar."""
    if not jar.classifier and jar.extension == "jar":
        return ""
    kind, classifier = quoteattr(jar.extension), f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else ""
    return f"<artifact name={quoteattr(jar.artifact)} type={kind} ext={kind}{classifier}/>"


def ivy_command(folder: Path, settings: str, module: str) -> list[str]:
    """Write Ivy's two files into its cache folder; return the command that fetches the module into it."""
    for name, text in (("settings.xml", settings), ("ivy.xml", module)):
        (folder / name).write_text(text, encoding="utf-8")
    own_settings = os.environ.get("HEADRACE_IVY_SETTINGS", str(folder / "settings.xml"))
    command = [str(find_java().path), *_proxy(), "-jar", str(_ivy_jar())]
    return [*command, "-settings", own_settings, "-cache", str(folder), "-ivy", str(folder / "ivy.xml")]


def until_no_route(lines: Iterable[str]) -> Iterator[str]:
    """Yield Ivy's lines until three tell of no route, to save one time-out per jar."""
    without_route = 0
    for line in lines:
        yield line
        without_route += says_no_route(line)
        if without_route >= 3:
            return


def says_no_route(line: str) -> bool:
    """True if a line of Ivy's says that the network, and not the artifact, is missing."""
    return bool(_NO_ROUTE.search(line))


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")  # finds it without importing it
    places = list(spec.submodule_search_locations or ()) if spec else []
    jars = sorted(jar for place in places for jar in Path(place, "jars").glob("ivy-*.jar"))
    if not jars:
        raise Unavailable("pyspark's jars/ivy-*.jar is not installed; run `pip install --force-reinstall pyspark`")
    return jars[-1]


def _proxy() -> list[str]:
    """Java does not read HTTPS_PROXY by itself."""
    proxy = urlsplit(urllib.request.getproxies().get("https", ""))
    if not proxy.hostname:
        return []
    return [f"-Dhttps.proxyHost={proxy.hostname}", f"-Dhttps.proxyPort={proxy.port or 443}"]


@contextlib.contextmanager
def _progress(jar_set: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show a bar on a terminal, else one line per jar; always on stderr, because stdout may be somebody's JSON."""
    if not sys.stderr.isatty():
        count = iter(range(1, total + 1))
        yield lambda name: print(f"headrace: {jar_set} jars {next(count, total)}/{total} {name}", file=sys.stderr)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(f"fetching the {jar_set} jars", total=total)
        yield lambda name: progress.update(task, advance=1, description=name)


def main(jar_sets: Sequence[str]) -> int:
    """Fetch the sets; returns 0, or 3 with the reason on stderr."""
    try:
        for jar_set in jar_sets:
            fetch(jar_set)
    except Unavailable as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or WORKERS))
