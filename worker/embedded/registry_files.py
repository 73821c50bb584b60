"""The files of the schema registry: Apicurio's archive, unpacked once beside the jars, and its command."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from headrace.config.jars import Jar, pinned
from headrace.plugins.interop.jvm.jars import Java, Unavailable, cache_dir, fetch, unverified

MINIMUM_JAVA: Final = 21
"""The Java version for which Apicurio 3.2 and later are compiled."""

CCOMPAT: Final = "/apis/ccompat/v7"
"""The path of Apicurio's API that is compatible with Confluent's registry."""

_MANIFEST: Final = "headrace-unpacked.json"
_STAGED: Final = ".unpacking-"


def unpacked() -> Path:
    """The folder of the registry's program, complete and of the pinned archive.

    Errors: Unavailable as `jars.fetch`, or if the cache cannot be written.
    """
    (jar,) = pinned("registry")
    home = cache_dir() / "registry" / jar.version
    if is_whole(home, jar):
        return home
    if unverified("registry"):
        print(f"headrace: fetching Apicurio Registry {jar.version} (159 MB, once)", file=sys.stderr)
    (archive,) = fetch("registry")
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with open(home.parent / ".lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not is_whole(home, jar):
                _unpack(archive, jar, home)
    except (OSError, EOFError, tarfile.TarError) as error:
        raise Unavailable(
            f"the schema registry could not be unpacked into {home} ({error}); "
            "free 200 MB there, make it writable, or set HEADRACE_CACHE"
        ) from error
    return home


def is_whole(home: Path, jar: Jar) -> bool:
    """True if the folder holds all of this archive's files in their sizes."""
    try:
        noted = json.loads((home / _MANIFEST).read_bytes())
        sizes = noted["files"].items()
        return noted["sha256"] == jar.sha256 and all((home / name).stat().st_size == size for name, size in sizes)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _unpack(archive: Path, jar: Jar, home: Path) -> None:
    """Unpack beside the folder, then rename: an interrupted one is never taken for whole, and is removed next time."""
    for left in home.parent.glob(f"{_STAGED}*"):
        shutil.rmtree(left, ignore_errors=True)
    staged = Path(tempfile.mkdtemp(prefix=_STAGED, dir=home.parent))
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(staged, filter="data")
        files = {path.relative_to(staged).as_posix(): path.stat().st_size for path in staged.rglob("*.*")}
        sizes = {name: size for name, size in files.items() if (staged / name).is_file()}
        manifest = {"sha256": jar.sha256, "files": sizes}
        (staged / _MANIFEST).write_text(json.dumps(manifest, indent=0), encoding="utf-8")
        shutil.rmtree(home, ignore_errors=True)
        os.replace(staged, home)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def command(java: Java, home: Path, port: int, log_file: Path) -> list[str]:
    """The command of the registry on loopback alone; run it in its data folder, which gets its database.

    WRITE_DELAY=0: a schema whose id was given out survives a `kill -9` (Invariant 7); H2 would wait half a second. The
    global rule is Confluent's default; Apicurio's own is to check nothing.
    """
    properties = {
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": port,
        "quarkus.http.access-log.enabled": "false",
        # Its second listener, which cannot be turned off: on any free port.
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": 0,
        "quarkus.log.console.enabled": "false",
        "quarkus.log.file.enabled": "true",
        "quarkus.log.file.path": log_file,
        "quarkus.log.file.json.enabled": "false",
        "apicurio.storage.kind": "sql",
        "apicurio.storage.sql.kind": "h2",
        "apicurio.datasource.url": "jdbc:h2:file:./data/registry;WRITE_DELAY=0;DB_CLOSE_ON_EXIT=FALSE",
        "apicurio.datasource.jdbc.initial-size": 2,
        "apicurio.datasource.jdbc.min-size": 2,
        "apicurio.rules.global.compatibility": "BACKWARD",
        "apicurio.ccompat.max-subjects": 100_000,
    }
    # Measured on 2 busy cores: ready after 10 s instead of 15; it is all start and little work.
    machine = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true"]
    settings = [f"-D{key}={value}" for key, value in properties.items()]
    return [str(java.path), *machine, *settings, "-jar", str(home / "quarkus-run.jar")]
