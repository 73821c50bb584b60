"""Compiles Headrace's own Java into jars, which stay in the cache.

Decided: the compiler is ecj, one jar from Maven Central that runs on a Java runtime, because a worker's machine seldom
has javac; loses: 3 MB and two seconds, once for each version of the sources.

Decided: a wheel carries the sources, and a worker compiles them at its first start, because the build of a wheel would
need a JVM and pyspark's 400 MB to compile against, and a worker fetches Spark's jars at its first start anyway; loses:
a worker without network needs a cache that was filled elsewhere, as for those jars.

Decided: they are compiled against the classes of the running Java, because a runtime alone does not know older ones
(`--release` needs a JDK); loses: the compiler does not tell that a method is newer than Java 17, the tests do.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from zipfile import ZipFile, ZipInfo, is_zipfile

from headrace.config.jars import pinned
from headrace.plugins.interop.jvm import jars

_OPTIONS: Final = (f"-{jars.MINIMUM_JAVA}", "-encoding", "UTF-8", "-proc:none", "-nowarn")
_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_MTIME: Final = 1_700_000_000
"""The time of each jar: an archive of classes is for jars with certain times, even if a jar is made anew."""
_SHOWN_LINES: Final = 12


def compiled(name: str, folder: Path, class_path: Sequence[Path]) -> Path:
    """The jar of the folder's Java files, compiled if the cache has none.

    Errors: jars.Unavailable without the compiler, or if it fails.
    """
    sources = sorted(folder.glob("*.java"))
    jar = jars.cache_dir() / "jars" / f"headrace-{name}-{_digest(sources, class_path)}.jar"
    if not is_zipfile(jar):  # missing, or truncated by a full disk or a lost machine
        (compiler,) = jars.fetch("compiler")
        try:
            with tempfile.TemporaryDirectory(dir=jar.parent, prefix=f"{name}-") as scratch:
                classes = Path(scratch, "classes")
                _compile(compiler, sources, class_path, classes)
                _pack(classes, Path(scratch, jar.name)).replace(jar)
        except OSError as error:
            raise jars.Unavailable(
                f"Headrace's Java classes cannot be written to {jar.parent} ({error}); make it writable or set "
                "HEADRACE_CACHE"
            ) from error
    return jar


def _digest(sources: Sequence[Path], class_path: Sequence[Path]) -> str:
    """The digest of all inputs of a jar; names of jars include their versions."""
    said = [*_OPTIONS, *(jar.sha256 for jar in pinned("compiler")), *sorted(path.name for path in class_path)]
    said += [part for source in sources for part in (source.name, source.read_text(encoding="utf-8"))]
    return hashlib.sha256("\0".join(said).encode()).hexdigest()[:16]


def _compile(compiler: Path, sources: Sequence[Path], class_path: Sequence[Path], into: Path) -> None:
    java = jars.find_java().path
    against = os.pathsep.join(map(str, class_path))
    command: list[str | Path] = [java, *_JVM, "-jar", compiler, *_OPTIONS, "-cp", against, "-d", into, *sources]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        said = "\n".join(done.stdout.strip().splitlines()[:_SHOWN_LINES])
        raise jars.Unavailable(
            f"Headrace's Java classes in {sources[0].parent} could not be compiled by {compiler.name} with {java}; "
            f"check that this Java and pyspark are whole, or install them again. The compiler says:\n{said}"
        )


def _pack(classes: Path, jar: Path) -> Path:
    """Write the jar: equal classes make equal bytes."""
    with ZipFile(jar, "w") as packed:
        for file in sorted(classes.rglob("*.class")):
            packed.writestr(ZipInfo(file.relative_to(classes).as_posix()), file.read_bytes())
    os.utime(jar, (_MTIME, _MTIME))
    return jar
