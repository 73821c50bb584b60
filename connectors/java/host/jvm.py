"""The JVM inside a host process: its start, and a class loader for each plugin."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import jpype

from headrace.connectors.java.host.connect_internals import plugin_class_loader
from headrace.connectors.java.host.logs import INHERITED

_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC")
_HEAP: Final = re.compile(r"-Xm[sx].*|-XX:(Initial|Max)HeapSize=.*")
_INITIAL_HEAP: Final = "-Xms24m"
"""Decided: not the JVM's own default, a 64th of the machine's memory, because a host with little traffic fills much of
that before it collects (63 MB of 24 GB; with 32 MB of heap 10 MB); loses: a few early collections. Omitted if the user
sizes the heap."""
_SMALL_HEAP: Final = ("-XX:NewRatio=1", "-XX:SurvivorRatio=3")
"""Decided: half of such a heap for new objects, and two fifths of that for survivors, because a source's records take
1-3 MB until Kafka has them, which the JVM's own sizes promote: FileStreamSource took 0.7 microseconds of collections a
record and takes 0.1; loses: a quarter of the space for old objects."""


class Jvm:
    """The JVM of this process; there can be only one."""

    def __init__(self, class_path: Sequence[str], options: Sequence[str]) -> None:
        self._loaders: dict[tuple[str, ...], Any] = {}
        here = Path(__file__).parent
        logging = f"-Dlog4j2.configurationFile={here / 'log4j2.properties'}"
        is_collected, is_sized = (any(map(theirs.fullmatch, options)) for theirs in (_COLLECTOR, _HEAP))
        defaults = [
            *([] if is_collected else ["-XX:+UseSerialGC"]),
            *([] if is_sized else [_INITIAL_HEAP]),
            *([] if is_collected or is_sized else _SMALL_HEAP),
        ]
        jpype.startJVM(_library(), logging, INHERITED, *defaults, *options, classpath=list(class_path))

    def headrace(self, name: str) -> Any:
        """Return a class of Headrace's own, by its simple name."""
        return jpype.JClass(f"headrace.{name}")

    def loader(self, location: str, jars: Sequence[str]) -> Any:
        """Return a plugin's class loader: its own jars precede the host's, except for Connect's and Java's classes.

        Without jars it is the host's own.
        """
        if not jars:
            return self._system_loader
        key = (location, *jars)
        if key not in self._loaders:
            urls = [_url(Path(jar)) for jar in jars]
            self._loaders[key] = plugin_class_loader(_url(Path(location)), urls, self._system_loader)
        return self._loaders[key]

    @property
    def _system_loader(self) -> Any:
        return jpype.java.lang.ClassLoader.getSystemClassLoader()


def _url(path: Path) -> Any:
    return jpype.java.io.File(str(path)).toURI().toURL()


def _library() -> str:
    """Return the JVM of the Java that Spark would take: JAVA_HOME's, else the first on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if found is not None:
        library = Path(os.path.realpath(found)).parents[1] / "lib" / "server" / "libjvm.so"
        if library.is_file():
            return str(library)
    return str(jpype.getDefaultJVMPath())
