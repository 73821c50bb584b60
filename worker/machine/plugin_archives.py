"""Fetches a Java plugin by its Maven coordinates, with its dependencies, by the Ivy that pyspark carries.

If a plugin publishes an archive of its own, that is taken. Else its jar is taken with its runtime dependencies, except
those that Connect gives to all plugins.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from headrace.plugins.interop.jvm.jars import Unavailable, cache_dir, ivy_command, says_no_route, until_no_route
from headrace.worker.machine.unpacking import UnsafeArchiveError, has_jars, unpack

_PART: Final = re.compile(r"[A-Za-z0-9_][\w.+-]*")
_SHARED: Final = {"org.apache.kafka": ("kafka-clients", "connect-api", "connect-runtime"), "org.slf4j": ("*",)}
"""The artifacts whose classes Connect shares with all plugins; a plugin's own copies would never be used."""
_SHARED_JAR: Final = re.compile(r"(kafka-clients|connect-api|connect-runtime|slf4j-[a-z0-9-]+?)-\d[\w.+-]*\.jar")
_TROUBLE: Final = re.compile(r":: ([^\s:!]+#[^\s:;]+;[^\s:!]+)[:!]")
_NO_PARENT: Final = re.compile(r"Impossible to load parent\b.*\bParent=([^\s)]+)")
_CLASSIFIERS: Final = ("-plugin", "-package", "")
"""Classifiers of archives: those of Debezium's connectors, of Camel's, of Debezium's scripting."""


class UnknownArtifactError(Exception):
    """Nothing is published under these coordinates, or a dependency is not; the text says which."""


@dataclass(frozen=True)
class Coordinates:
    """The coordinates of a Maven artifact."""

    group: str
    artifact: str
    version: str

    @classmethod
    def parse(cls, text: str) -> Coordinates:
        """Parse `GROUP:ARTIFACT:VERSION`. Errors: ValueError."""
        parts = text.split(":")
        if len(parts) != 3 or not all(_PART.fullmatch(part) for part in parts):
            raise ValueError(
                f"{text} names no artifact: write GROUP:ARTIFACT:VERSION, "
                "for example io.debezium:debezium-connector-postgres:3.5.0.Final"
            )
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def fetch_into(wanted: Coordinates, folder: Path) -> list[Path]:
    """Put the plugin's files into an empty folder and return its jars.

    Errors: UnknownArtifactError; Unavailable without Java, network or a writable cache folder.
    """
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="plugin-", dir=cache_dir()) as scratch:
        try:
            archive = _fetch_archive(wanted, _new(Path(scratch, "archive")))
            if archive is not None:
                unpack(archive, folder)
        except UnsafeArchiveError as error:
            raise Unavailable(f"what was fetched for {wanted} is no plugin: {error}") from error
        if archive is None:
            _fetch_jars(wanted, _new(Path(scratch, "jars")), folder)
    for jar in folder.rglob("*.jar"):
        if _SHARED_JAR.fullmatch(jar.name):
            jar.unlink()
    return sorted(folder.rglob("*.jar"))


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _fetch_archive(wanted: Coordinates, ivy: Path) -> Path | None:
    """Fetch the archive that the plugin publishes; None if it publishes none with jars in it."""
    for kind in ("tar.gz", "zip"):  # one after the other, because most publish the same as both
        artifacts = "".join(_artifact(wanted, kind, classifier) for classifier in _CLASSIFIERS)
        module = _module(wanted, 'transitive="false"', artifacts, "")
        _, lines = _run(ivy_command(ivy, _settings(use_poms=False), module))
        for classifier in _CLASSIFIERS:
            for archive in ivy.rglob(f"{wanted.artifact}-{wanted.version}{classifier}.{kind}"):
                if has_jars(archive):
                    return archive
        _refuse_without_network(wanted, lines)
    return None


def _artifact(wanted: Coordinates, kind: str, classifier: str) -> str:
    named = f' m:classifier="{classifier[1:]}"' if classifier else ""
    return f'<artifact name={quoteattr(wanted.artifact)} type="{kind}" ext="{kind}"{named}/>'


def _fetch_jars(wanted: Coordinates, ivy: Path, folder: Path) -> None:
    excluded = "".join(
        f'<exclude org="{group}" module="{artifact}" matcher="exact"/>'
        for group, artifacts in _SHARED.items()
        for artifact in artifacts
    )
    command = ivy_command(
        ivy, _settings(use_poms=True), _module(wanted, 'conf="default->master,runtime"', "", excluded)
    )
    pattern = folder / "[artifact]-[revision](-[classifier]).[ext]"
    code, lines = _run([*command, "-confs", "default", "-types", "jar", "bundle", "-retrieve", str(pattern)])
    if code == 0 and list(folder.glob("*.jar")):
        return
    _refuse_without_network(wanted, lines)
    told = [match[1] for match in map(_NO_PARENT.search, lines) if match]  # makes all that need it missing
    told = told or [match[1] for match in map(_TROUBLE.search, lines) if match]
    missing = list(dict.fromkeys(one.replace("#", ":").replace(";", ":") for one in told))
    if str(wanted) in missing:
        raise UnknownArtifactError(f"Maven Central has no {wanted}; look at its group, name and version")
    if missing:
        raise UnknownArtifactError(f"Maven Central lacks what {wanted} needs: {', '.join(missing)}")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    raise Unavailable(f"Ivy could not fetch {wanted}: {next((x.strip() for x in lines if 'Exception' in x), last)}")


def _run(command: Sequence[str]) -> tuple[int, list[str]]:
    """Run Ivy and return its exit code and output; each fetched file is told on stderr."""
    lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
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


def _refuse_without_network(wanted: Coordinates, lines: Sequence[str]) -> None:
    said = next((line.strip() for line in lines if says_no_route(line)), None)
    if said is not None:
        raise Unavailable(
            f"{wanted} could not be fetched from Maven Central: {said}. Check the network; behind a proxy set "
            "HTTPS_PROXY, with an own mirror set HEADRACE_IVY_SETTINGS to an ivysettings.xml"
        )


def _settings(*, use_poms: bool) -> str:
    return (
        '<ivysettings><settings defaultResolver="central"/><timeout-constraints>'
        '<timeout-constraint name="bounded" connectionTimeout="10000" readTimeout="60000"/></timeout-constraints>'
        f'<resolvers><ibiblio name="central" m2compatible="true" usepoms="{str(use_poms).lower()}"'
        ' timeoutConstraint="bounded"/></resolvers></ivysettings>\n'
    )


def _module(wanted: Coordinates, attributes: str, artifacts: str, excluded: str) -> str:
    names = f"org={quoteattr(wanted.group)} name={quoteattr(wanted.artifact)} rev={quoteattr(wanted.version)}"
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="headrace" module="plugin"/><configurations><conf name="default"/></configurations>'
        f'<dependencies defaultconf="default->default"><dependency {names} {attributes}>{artifacts}</dependency>'
        f"{excluded}</dependencies></ivy-module>\n"
    )
