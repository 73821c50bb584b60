"""The path of the archive of classes that Spark's driver loads, and the options with which its JVM uses it.

With it the JVM need not parse and verify the classes at every start. Measured on 2 shared cores: a session is ready
after 2.6 s instead of 5.2, its first expressions run after 1.4 s instead of 2.5. The JVM ignores an archive that does
not fit its class path, so it can only make a start faster. `class_archive_writer` writes it.

Decided: it is mapped at the address for which it was written, as Java did up to 17's first releases, because at a
random address the JVM rewrites all of it, 142 MB of each worker's own instead of 48; loses: the addresses of Spark's
classes in memory can be known.

Decided: Java takes jars signed with DSA as unsigned, because those of Spark's compiler are (with a key named DUMMY), so
that their 380 classes were verified at each start and could not be archived; loses: a signature of that kind on another
jar in the driver. An operator's own `java.security.properties` in the driver's options takes its place.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from headrace.plugins.interop.jvm import jars
from headrace.worker.engine.gateway import installed_spark

_AT_ITS_PLACE: Final = "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
_SECURITY: Final = "-Djava.security.properties="
_EDITION: Final = 4
"""Grows when the driver's class path changes, or the archive has other classes."""
QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


def path_for(class_path: Sequence[Path]) -> Path:
    """The path of the archive for this class path; it may not exist."""
    command = jars.java_command()
    java = Path(os.path.realpath(shutil.which(command) or command))
    # The JVM refuses an archive whose jars have other times: a Spark that was installed again needs a new one.
    stamps = [file.stat().st_mtime_ns for file in (java, installed_spark() / "jars", *class_path) if file.exists()]
    said = [_EDITION, str(java), *stamps, version("pyspark"), str(installed_spark()), *map(str, class_path)]
    return jars.cache_dir() / f"classes-{hashlib.sha256(repr(said).encode()).hexdigest()[:16]}.jsa"


def without_signatures(java_options: str) -> str:
    """The JVM option to take the jars of Spark's compiler as unsigned, beside an operator's options."""
    if _SECURITY in java_options:
        return ""
    return f" {_SECURITY}{Path(__file__).with_name('unsigned.properties').as_uri()}"


def reading(class_path: Sequence[Path]) -> str:
    """The JVM options to start with the archive; empty if there is none."""
    archive = path_for(class_path)
    if not archive.exists():
        return ""
    with contextlib.suppress(OSError):
        os.utime(archive)  # the writer deletes the least recently used ones
    return f" -XX:SharedArchiveFile={archive} -Xshare:auto {_AT_ITS_PLACE} {QUIET}"
