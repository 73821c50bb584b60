"""Maven's coordinates, repositories and versions, asked by the Ivy that pyspark carries.

Decided: Ivy lists the versions, and ours are compared by Connect's own rules, so that a range means the same as in
`connector.plugin.version`; loses: a second run of Ivy for a range, about five seconds.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cmp_to_key
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from headrace.config.connector.plugin_versions import compared, is_prerelease, is_within, range_of, why_no_range
from headrace.config.worker.listeners import LOOPBACK
from headrace.plugins.interop.jvm.jars import Unavailable, cache_dir, ivy_command, says_no_route, until_no_route

_PART: Final = re.compile(r"[A-Za-z0-9_][\w.+-]*")
_FOUND: Final = re.compile(r"found revs: \[([^\]]*)\]")
_UNANSWERED: Final = re.compile(
    r"Server access error at url (?P<url>\S+) \((?P<why>.*)\)|SERVER ERROR: (?P<said>.*) url=(?P<url2>\S+)"
    r"|HTTP response status: 40[17] url=(?P<url3>\S+)"
)
_SILENCE_S: Final = 75.0
_NONE: Final = "[99999999,)"
"""A range in which no version is, so that Ivy lists all and fetches none."""


class UnknownArtifactError(Exception):
    """Nothing is published under these coordinates, or a dependency is not; the text says which."""


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of a Maven artifact, in one version or in those of a range."""

    group: str
    artifact: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Coordinates:
        """Parse `GROUP:ARTIFACT:VERSION`; the version may be `latest`, or a range. Errors: ValueError."""
        parts = text.split(":")
        if len(parts) != 3 or not all(map(_PART.fullmatch, parts[:2])) or not parts[2]:
            raise ValueError(
                f"{text} names no artifact: write GROUP:ARTIFACT:VERSION, "
                "for example io.debezium:debezium-connector-postgres:3.5.0.Final"
            )
        read = cls(*parts)
        if (fault := why_no_range(read.version)) or not (read.is_open or _PART.fullmatch(read.version)):
            raise ValueError(f"{text} names no version: {fault or 'write GROUP:ARTIFACT:VERSION'}")
        return read

    @property
    def is_open(self) -> bool:
        """True for `latest`, and for a range."""
        return self.version.lower() == "latest" or self.version.startswith(("[", "("))

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def checked_repository(url: str) -> str:
    """Return the URL of a repository. Errors: ValueError if it is none, or if jars could be exchanged on the way."""
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise ValueError(
            f"the repository at {parts.hostname} is given with a password, which would be kept in the lock file; "
            "write it into an ivysettings.xml, and name that in HEADRACE_IVY_SETTINGS"
        )
    is_near = parts.scheme == "http" and parts.hostname in LOOPBACK
    if not (is_near or (parts.scheme == "https" and parts.hostname) or (parts.scheme == "file" and parts.path)):
        raise ValueError(f"{url} is no repository that can be used: write https://… or file:///…, with the folder")
    return url


def chosen(wanted: Coordinates, repositories: Sequence[str] = ()) -> Coordinates:
    """The latest version that is meant; releases are preferred to what comes before them, such as `4.0.0.Beta1`.

    Errors: UnknownArtifactError if there is none; Unavailable.
    """
    if not wanted.is_open:
        return wanted
    versions = _versions(wanted, repositories)
    spec = range_of(wanted.version)
    fitting = [one for one in versions if spec is None or is_within(spec, one)]
    if not fitting:
        some = ", ".join(versions[-5:])
        raise UnknownArtifactError(
            f"{places(repositories)} has no {wanted}; the latest are {some}"
            if some
            else f"{places(repositories)} has no {wanted.group}:{wanted.artifact}; look at its group and name"
        )
    releases = [one for one in fitting if not is_prerelease(one)]
    return replace(wanted, version=(releases or fitting)[-1])


def _versions(wanted: Coordinates, repositories: Sequence[str]) -> list[str]:
    """All versions, the latest one last."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="versions-", dir=cache_dir()) as scratch:
        module = dependency(replace(wanted, version=_NONE), 'transitive="false"')
        settings = settings_for(repositories, use_poms=False)
        # Ivy heeds no time-out of its settings when it lists what is in a folder, and says each step.
        _, lines = run_ivy([*ivy_command(Path(scratch), settings, module), "-debug"], silence_s=_SILENCE_S)
    refuse_unanswered(lines, repositories)
    found = {one.strip() for match in map(_FOUND.search, lines) if match for one in match[1].split(",")}
    if not found - {""}:
        refuse_without_network(wanted, lines, repositories)
    return sorted(found - {""}, key=cmp_to_key(compared))


def run_ivy(command: Sequence[str], silence_s: float | None = None) -> tuple[int, list[str]]:
    """Run Ivy and return its exit code and output; each fetched file is told on stderr.

    Errors: Unavailable if it says nothing for so long.
    """
    lines: list[str] = []
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process,
        _killed_if_silent(process, lines, silence_s),
    ):
        assert process.stdout is not None
        try:
            for line in until_no_route(process.stdout):
                lines.append(line)
                if "[SUCCESSFUL ]" in line and ".pom" not in line:
                    print(f"headrace: fetched {line.split('!')[-1].split()[0]}", file=sys.stderr)
            if any(says_no_route(line) for line in lines):
                process.terminate()
        except BaseException:
            process.kill()
            raise
    return process.returncode, lines


@contextmanager
def _killed_if_silent(process: subprocess.Popen[str], lines: list[str], silence_s: float | None) -> Iterator[None]:
    """Kill a process that adds no line in a whole interval. Errors: Unavailable if it was."""
    ended, was_silent = threading.Event(), threading.Event()

    def watch() -> None:
        before = -1
        while not ended.wait(silence_s) and not was_silent.is_set():
            if len(lines) == before:
                was_silent.set()
                process.kill()
            before = len(lines)

    threading.Thread(target=watch, daemon=True, name="ivy-watch").start()
    try:
        yield
    finally:
        ended.set()
    if was_silent.is_set():
        last = next((line.strip() for line in reversed(lines) if "://" in line), "it had said no address")
        raise Unavailable(
            f"a repository said nothing for {silence_s:.0f} s ({last}); try again, or ask it for an exact version"
        )


def refuse_without_network(wanted: Coordinates, lines: Sequence[str], repositories: Sequence[str] = ()) -> None:
    """Errors: Unavailable if Ivy says that a repository could not be reached."""
    said = next((line.strip() for line in lines if says_no_route(line)), None)
    if said is not None:
        raise Unavailable(
            f"{wanted} could not be fetched from {places(repositories)}: {said}. Check the network; behind a proxy set "
            "HTTPS_PROXY, with an own mirror set HEADRACE_IVY_SETTINGS to an ivysettings.xml"
        )


def refuse_unanswered(lines: Sequence[str], repositories: Sequence[str]) -> None:
    """Errors: Unavailable if one of these gave no answer, because Ivy goes on to Maven Central then.

    A plugin or version from there may be another than the one that was meant.
    """
    for match in filter(None, map(_UNANSWERED.search, lines)):
        url = match["url"] or match["url2"] or match["url3"]
        why = match["why"] or match["said"] or "it wants a login"
        if (one := next((one for one in repositories if url.startswith(one)), None)) is not None:
            raise Unavailable(
                f"the repository {one} could not be asked ({why}), and nothing was taken instead. {_advice(why)}"
            )


def _advice(why: str) -> str:
    if "PKIX" in why or "SSLHandshake" in why:
        return (
            "If its certificate is of an authority of your own, name a Java trust store that has it: "
            "JAVA_TOOL_OPTIONS='-Djavax.net.ssl.trustStore=FILE -Djavax.net.ssl.trustStorePassword=PASSWORD'"
        )
    return (
        "Check its address and the network; behind a proxy set HTTPS_PROXY, for a login HEADRACE_IVY_SETTINGS to an "
        "ivysettings.xml"
    )


def places(repositories: Sequence[str]) -> str:
    """The repositories that are asked, in words."""
    return ", ".join([*repositories, "Maven Central"]) if repositories else "Maven Central"


def settings_for(repositories: Sequence[str], *, use_poms: bool) -> str:
    """Ivy's settings with these repositories, which are asked first, and Maven Central."""
    given = f'm2compatible="true" usepoms="{str(use_poms).lower()}" timeoutConstraint="bounded"'
    named = "".join(
        f'<ibiblio name="repository{number}" root={quoteattr(url)} {given}/>' for number, url in enumerate(repositories)
    )
    return (
        '<ivysettings><settings defaultResolver="all"/><timeout-constraints>'
        '<timeout-constraint name="bounded" connectionTimeout="10000" readTimeout="60000"/></timeout-constraints>'
        f'<resolvers><chain name="all" returnFirst="true">{named}<ibiblio name="central" {given}/></chain></resolvers>'
        "</ivysettings>\n"
    )


def dependency(wanted: Coordinates, attributes: str, artifacts: str = "", excluded: str = "") -> str:
    """Ivy's module that depends on these coordinates alone."""
    names = f"org={quoteattr(wanted.group)} name={quoteattr(wanted.artifact)} rev={quoteattr(wanted.version)}"
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="headrace" module="plugin"/><configurations><conf name="default"/></configurations>'
        f'<dependencies defaultconf="default->default"><dependency {names} {attributes}>{artifacts}</dependency>'
        f"{excluded}</dependencies></ivy-module>\n"
    )
