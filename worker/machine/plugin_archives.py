"""Fetches a Java plugin by its Maven coordinates, with its dependencies, by the Ivy that pyspark carries.

If a plugin publishes an archive of its own, that is taken. Else its jar is taken with its runtime dependencies, except
those that Connect gives to all plugins.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from headrace.plugins.interop.jvm.jars import Unavailable, cache_dir, ivy_command
from headrace.worker.machine.maven import (
    Coordinates,
    UnknownArtifactError,
    dependency,
    places,
    refuse_unanswered,
    refuse_without_network,
    run_ivy,
    settings_for,
)
from headrace.worker.machine.unpacking import UnsafeArchiveError, has_jars, unpack

_SHARED: Final = {"org.apache.kafka": ("kafka-clients", "connect-api", "connect-runtime"), "org.slf4j": ("*",)}
"""The artifacts whose classes Connect shares with all plugins; a plugin's own copies would never be used."""
_SHARED_JAR: Final = re.compile(r"(kafka-clients|connect-api|connect-runtime|slf4j-[a-z0-9-]+?)-\d[\w.+-]*\.jar")
_TROUBLE: Final = re.compile(r":: ([^\s:!]+#[^\s:;]+;[^\s:!]+)[:!]")
_NO_PARENT: Final = re.compile(r"Impossible to load parent\b.*\bParent=([^\s)]+)")
_CLASSIFIERS: Final = ("-plugin", "-package", "")
"""Classifiers of archives: those of Debezium's connectors, of Camel's, of Debezium's scripting."""


def fetch_into(wanted: Coordinates, folder: Path, repositories: Sequence[str] = ()) -> list[Path]:
    """Put the plugin's files into an empty folder and return its jars.

    Errors: UnknownArtifactError; Unavailable without Java, network or a writable cache folder.
    """
    cache_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="plugin-", dir=cache_dir()) as scratch:
        try:
            archive = _fetch_archive(wanted, _new(Path(scratch, "archive")), repositories)
            if archive is not None:
                unpack(archive, folder)
        except UnsafeArchiveError as error:
            raise Unavailable(f"what was fetched for {wanted} is no plugin: {error}") from error
        if archive is None:
            _fetch_jars(wanted, _new(Path(scratch, "jars")), folder, repositories)
    return own_jars(folder)


def own_jars(folder: Path) -> list[Path]:
    """Remove the jars that Connect gives to all plugins, and return the others."""
    for jar in folder.rglob("*.jar"):
        if _SHARED_JAR.fullmatch(jar.name):
            jar.unlink()
    return sorted(folder.rglob("*.jar"))


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _fetch_archive(wanted: Coordinates, ivy: Path, repositories: Sequence[str]) -> Path | None:
    """Fetch the archive that the plugin publishes; None if it publishes none with jars in it."""
    for kind in ("tar.gz", "zip"):  # one after the other, because most publish the same as both
        artifacts = "".join(_artifact(wanted, kind, classifier) for classifier in _CLASSIFIERS)
        module = dependency(wanted, 'transitive="false"', artifacts)
        _, lines = run_ivy(ivy_command(ivy, settings_for(repositories, use_poms=False), module))
        refuse_unanswered(lines, repositories)
        for classifier in _CLASSIFIERS:
            for archive in ivy.rglob(f"{wanted.artifact}-{wanted.version}{classifier}.{kind}"):
                if has_jars(archive):
                    return archive
        refuse_without_network(wanted, lines, repositories)
    return None


def _artifact(wanted: Coordinates, kind: str, classifier: str) -> str:
    named = f' m:classifier="{classifier[1:]}"' if classifier else ""
    return f'<artifact name={quoteattr(wanted.artifact)} type="{kind}" ext="{kind}"{named}/>'


def _fetch_jars(wanted: Coordinates, ivy: Path, folder: Path, repositories: Sequence[str]) -> None:
    excluded = "".join(
        f'<exclude org="{group}" module="{artifact}" matcher="exact"/>'
        for group, artifacts in _SHARED.items()
        for artifact in artifacts
    )
    module = dependency(wanted, 'conf="default->master,runtime"', excluded=excluded)
    command = ivy_command(ivy, settings_for(repositories, use_poms=True), module)
    pattern = folder / "[artifact]-[revision](-[classifier]).[ext]"
    code, lines = run_ivy([*command, "-confs", "default", "-types", "jar", "bundle", "-retrieve", str(pattern)])
    refuse_unanswered(lines, repositories)
    if code == 0 and list(folder.glob("*.jar")):
        return
    refuse_without_network(wanted, lines, repositories)
    told = [match[1] for match in map(_NO_PARENT.search, lines) if match]  # makes all that need it missing
    told = told or [match[1] for match in map(_TROUBLE.search, lines) if match]
    missing = list(dict.fromkeys(one.replace("#", ":").replace(";", ":") for one in told))
    if str(wanted) in missing:
        raise UnknownArtifactError(f"{places(repositories)} has no {wanted}; look at its group, name and version")
    if missing:
        raise UnknownArtifactError(f"{places(repositories)} lacks what {wanted} needs: {', '.join(missing)}")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    raise Unavailable(f"Ivy could not fetch {wanted}: {next((x.strip() for x in lines if 'Exception' in x), last)}")
