"""The JVM inside a host process: its start, Headrace's own Java files, and a class loader for each plugin.

Decided: Janino compiles the Java files, as it does Spark's and `worker/engine/lane.java`, because a machine with a Java
runtime alone has no javac; loses: their Java has neither generics nor lambdas. It takes two seconds, so the classes are
kept in the cache, by the hash of their source.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import jpype

from headrace.connectors.java.host.logs import INHERITED

_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC")
_SOURCES: Final = (
    *("beans.java", "columns.java", "chain.java", "writing.java", "reading.java"),
    *("transactions.java", "records.java", "sinks.java", "sink_context.java", "section.java"),
)
_HEAP: Final = re.compile(r"-Xm[sx].*|-XX:(Initial|Max)HeapSize=.*")
_INITIAL_HEAP: Final = "-Xms24m"
"""Decided: not the JVM's own, a 64th of the machine's memory, because a host that trickles fills much of that before it
collects (63 MB of 24 GB, where 32 MB of heap took 10); loses: a few early collections. Users who size it do."""
_SMALL_HEAP: Final = ("-XX:NewRatio=1", "-XX:SurvivorRatio=3")
"""Decided: half of such a heap for new objects, two fifths of it for those that survive, because what is kept of a
source's records until Kafka has them is 1-3 MB, which the JVM's own sizes promote: FileStreamSource took 0.7
microseconds of collections a record and takes 0.1; loses: a quarter of what old objects may have."""
_LOADER: Final = "org.apache.kafka.connect.runtime.isolation.PluginClassLoader"


class Jvm:
    """The JVM of this process; there can be one only."""

    def __init__(self, class_path: Sequence[str], cache: Path, options: Sequence[str]) -> None:
        self._cache = cache
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

    @cached_property
    def source_records(self) -> Any:
        """The class `headrace.SourceRecords` of `records.java`."""
        return jpype.JClass("headrace.SourceRecords", loader=self._own_loader)

    @cached_property
    def transactions(self) -> Any:
        """The class `headrace.Transactions` of `transactions.java`."""
        return jpype.JClass("headrace.Transactions", loader=self._own_loader)

    @cached_property
    def chain(self) -> Any:
        """The class `headrace.Chain` of `chain.java`."""
        return jpype.JClass("headrace.Chain", loader=self._own_loader)

    @cached_property
    def sink_records(self) -> Any:
        """The class `headrace.SinkRecords` of `sinks.java`."""
        return jpype.JClass("headrace.SinkRecords", loader=self._own_loader)

    @cached_property
    def sink_context(self) -> Any:
        """The class `headrace.SinkContext` of `sink_context.java`."""
        return jpype.JClass("headrace.SinkContext", loader=self._own_loader)

    @cached_property
    def record_reader(self) -> Any:
        """The class `headrace.RecordReader` of `reading.java`."""
        return jpype.JClass("headrace.RecordReader", loader=self._own_loader)

    @cached_property
    def section(self) -> Any:
        """The class `headrace.Section` of `section.java`."""
        return jpype.JClass("headrace.Section", loader=self._own_loader)

    @cached_property
    def beans(self) -> Any:
        """The class `headrace.Beans` of `beans.java`."""
        return jpype.JClass("headrace.Beans", loader=self._own_loader)

    @cached_property
    def _own_loader(self) -> Any:
        """The class loader of Headrace's own classes, which are compiled if need be."""
        sources = [Path(__file__).with_name(name).read_text(encoding="utf-8") for name in _SOURCES]
        version = str(jpype.java.lang.System.getProperty("java.specification.version"))
        digest = hashlib.sha256("\0".join([version, *sources]).encode()).hexdigest()[:16]
        folder = self._cache / f"java-host-{digest}"
        if not folder.is_dir():
            self._compile(sources, folder)
        return jpype.java.net.URLClassLoader([_url(folder)], self._system_loader)

    def loader(self, location: str, jars: Sequence[str]) -> Any:
        """The class loader of a plugin: its own jars come before the host's, but for Connect's and Java's classes.

        Without jars it is the host's own.
        """
        if not jars:
            return self._system_loader
        key = (location, *jars)
        if key not in self._loaders:
            urls = [_url(Path(jar)) for jar in jars]
            self._loaders[key] = jpype.JClass(_LOADER)(_url(Path(location)), urls, self._system_loader)
        return self._loaders[key]

    @property
    def _system_loader(self) -> Any:
        return jpype.java.lang.ClassLoader.getSystemClassLoader()

    def _compile(self, sources: Sequence[str], folder: Path) -> None:
        loader = jpype.java.net.URLClassLoader([_url(jar) for jar in _compiler_jars()], self._system_loader)
        compiler_class = jpype.java.lang.Class.forName("org.codehaus.janino.SimpleCompiler", True, loader)
        self._cache.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=self._cache))
        try:
            compiler = compiler_class.getDeclaredConstructor().newInstance()
            compiler.setParentClassLoader(self._system_loader)
            compiler.cook(_one_unit(sources))
            for entry in compiler.getBytecodes().entrySet():
                file = made.joinpath(*f"{entry.getKey()}".split("."))
                file.parent.mkdir(exist_ok=True)
                file.with_name(f"{file.name}.class").write_bytes(bytes(entry.getValue()))
            if not folder.is_dir():  # another host may have been faster
                made.rename(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _one_unit(sources: Sequence[str]) -> str:
    """The sources as one, since Janino compiles one at a time: all imports first."""
    lines = [line for source in sources for line in source.splitlines()]
    package, *_ = lines
    imports = dict.fromkeys(line for line in lines if line.startswith("import "))
    rest = [line for line in lines if line != package and line not in imports]
    return "\n".join([package, *imports, *rest])


def _url(path: Path) -> Any:
    return jpype.java.io.File(str(path)).toURI().toURL()


def _library() -> str:
    """The JVM of the Java that Spark would take: JAVA_HOME's, else the first on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if found is not None:
        library = Path(os.path.realpath(found)).parents[1] / "lib" / "server" / "libjvm.so"
        if library.is_file():
            return str(library)
    return str(jpype.getDefaultJVMPath())


def _compiler_jars() -> list[Path]:
    spec = find_spec("pyspark")  # finds it without importing it
    folders = [Path(place, "jars") for place in (spec.submodule_search_locations or () if spec else ())]
    names = ("janino-*.jar", "commons-compiler-*.jar")
    return [jar for folder in folders for name in names for jar in folder.glob(name)]
