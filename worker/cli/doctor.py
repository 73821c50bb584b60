"""`headrace doctor`: this machine's means and gaps for Headrace, with advice."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Final

from headrace.config.jars import pinned
from headrace.plugins.interop.jvm.jars import WORKERS, Unavailable, cache_dir, find_java, unverified
from headrace.worker.embedded.kafka_broker import Broker, cluster_id
from headrace.worker.embedded.registry_files import MINIMUM_JAVA
from headrace.worker.embedded.registry_server import PURPOSE
from headrace.worker.embedded.server_process import port_owner
from headrace.worker.machine import processes
from headrace.worker.machine.java_search import find_newer_java
from headrace.worker.machine.memory_limit import memory_limit

MINIMUM_PYTHON: Final = (3, 11)
_WHEELS: Final = ("pyspark", "confluent-kafka", "pyarrow")
_REST_PORT: Final = 8083
_BROKER_PORT: Final = 9092
_ENOUGH_BYTES: Final = 2 << 30
_NEEDED_BYTES: Final = 256 << 20
_ENOUGH_MEMORY: Final = 1 << 30


class Verdict(StrEnum):
    """FAIL: Headrace does not run like this. WARN: it runs, but the operator should know."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class ReportLine:
    """One line of the report; `advice` is empty if there is nothing to do."""

    name: str
    state: Verdict
    found: str
    advice: str = ""


def run(bootstrap_servers: str, of_worker: Iterable[ReportLine] = (), *, as_json: bool) -> int:
    """Print the report, at its end the checks of a worker; returns 0, or 3 if something needed is missing."""
    return report([*examine(bootstrap_servers), *of_worker], "Headrace", as_json=as_json)


def report(found: Iterable[ReportLine], who: str, *, as_json: bool) -> int:
    """Print the checks and the verdict on `who`; returns 0, or 3 if something needed is missing."""
    checks = list(found)
    ok = all(check.state is not Verdict.FAIL for check in checks)
    if as_json:
        print(json.dumps({"ok": ok, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        _show(checks, who, ok)
    return 0 if ok else 3


def examine(bootstrap_servers: str) -> Iterator[ReportLine]:
    """Yield all checks, in the order in which an operator would mend things."""
    yield _python()
    yield _java()
    yield from map(_wheel, _WHEELS)
    yield _memory()
    yield _cache()
    yield from (_jars(jar_set) for jar_set in WORKERS)
    yield _registry()
    yield from (
        _disk(name, path) for name, path in (("cache disk", cache_dir()), ("data disk", Broker.default_data_dir()))
    )
    yield _rest_port()
    yield _broker_port()
    yield _broker(bootstrap_servers)


def _show(checks: Sequence[ReportLine], who: str, ok: bool) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    styles = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "red"}
    width = max(len(check.name) for check in checks)
    for check in checks:
        line = Text.assemble((f"{check.state:<4}", styles[check.state]), f"  {check.name:<{width}}  {check.found}")
        console.print(line, soft_wrap=True)
        if check.advice:
            console.print(Text(f"{'':<{width + 6}}  → {check.advice}"), soft_wrap=True)
    console.print(f"{who} can run here" if ok else f"{who} cannot run here yet: see the lines marked fail")


def _python() -> ReportLine:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < MINIMUM_PYTHON:
        needed = ".".join(map(str, MINIMUM_PYTHON))
        return ReportLine(
            "Python", Verdict.FAIL, found, f"install Python {needed} or newer and make the environment with it"
        )
    return ReportLine("Python", Verdict.OK, f"{found} at {sys.executable}")


def _java() -> ReportLine:
    try:
        java = find_java()
    except Unavailable as error:
        return ReportLine("Java", Verdict.FAIL, str(error), "see above")
    return ReportLine("Java", Verdict.OK, f"{java.version} at {java.path}")


def _wheel(name: str) -> ReportLine:
    try:
        return ReportLine(name, Verdict.OK, metadata.version(name))
    except metadata.PackageNotFoundError:
        return ReportLine(
            name, Verdict.FAIL, "not installed", f"run `{Path(sys.executable).name} -m pip install headrace`"
        )


def _memory() -> ReportLine:
    limit = memory_limit()
    found = f"{limit / (1 << 30):.1f} GiB for a worker and its JVMs"
    if limit < _ENOUGH_MEMORY:
        advice = "give it 1 GiB or more, or lower spark.driver.memory (768m); else Linux kills the driver or the worker"
        return ReportLine("memory", Verdict.WARN, found, advice)
    return ReportLine("memory", Verdict.OK, found)


def _cache() -> ReportLine:
    folder = cache_dir()
    existing = _nearest(folder)
    if not os.access(existing, os.W_OK | os.X_OK):
        advice = "make it writable or set HEADRACE_CACHE"
        if _has_all("spark"):  # as in an image, whose root file system may be read-only
            advice = f"a worker finds all in it; for commands that fetch more, {advice}"
            return ReportLine("cache", Verdict.WARN, f"{folder} cannot be written", advice)
        return ReportLine("cache", Verdict.FAIL, f"{existing} cannot be written", advice)
    return ReportLine("cache", Verdict.OK, str(folder))


def _has_all(jar_set: str) -> bool:
    try:
        return not unverified(jar_set)
    except Unavailable:
        return False


def _jars(jar_set: str) -> ReportLine:
    name, total = f"{jar_set} jars", len(pinned(jar_set))
    try:
        lacking = unverified(jar_set)
    except Unavailable as error:
        return ReportLine(name, Verdict.FAIL, str(error))
    if not lacking:
        return ReportLine(name, Verdict.OK, f"{total} of {total} in the cache and verified")
    advice = "they are fetched on first use; to do it now run `python -m headrace.plugins.interop.jvm.jars`"
    return ReportLine(name, Verdict.WARN, f"{len(lacking)} of {total} missing or not verified", advice)


def _registry() -> ReportLine:
    """At most a warning: only `headrace registry start` needs it."""
    name = "registry"
    try:
        java, is_lacking = find_newer_java(MINIMUM_JAVA, PURPOSE), bool(unverified("registry"))
    except Unavailable as error:
        return ReportLine(name, Verdict.WARN, str(error), "needed for `headrace registry start` only")
    if is_lacking:
        advice = "it is fetched (159 MB) by the first `headrace registry start`"
        return ReportLine(
            name, Verdict.WARN, f"Java {java.version} at {java.path}; the program is not in the cache", advice
        )
    return ReportLine(name, Verdict.OK, f"Java {java.version} at {java.path}; the program is in the cache and verified")


def _disk(name: str, path: Path) -> ReportLine:
    free = shutil.disk_usage(_nearest(path)).free
    found = f"{free / (1 << 30):.1f} GiB free for {path}"
    if free < _NEEDED_BYTES:
        return ReportLine(name, Verdict.FAIL, found, "free some space; broker data and jars need at least 0.25 GiB")
    if free < _ENOUGH_BYTES:
        return ReportLine(name, Verdict.WARN, found, "broker data will fill this soon; free some space")
    return ReportLine(name, Verdict.OK, found)


def _rest_port() -> ReportLine:
    name = f"port {_REST_PORT}"
    if processes.is_free(_REST_PORT):
        return ReportLine(name, Verdict.OK, "free for REST")
    import httpx

    try:
        answer = httpx.get(f"http://127.0.0.1:{_REST_PORT}/", timeout=2, trust_env=False).json()
        return ReportLine(
            name, Verdict.WARN, f"a Connect worker answers there, version {answer['version']}", _OTHER_LISTENER
        )
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return ReportLine(name, Verdict.WARN, f"taken{port_owner(_REST_PORT)}", _OTHER_LISTENER)


_OTHER_LISTENER: Final = "give another worker another port: listeners=http://127.0.0.1:8084"


def _broker_port() -> ReportLine:
    name = f"port {_BROKER_PORT}"
    if processes.is_free(_BROKER_PORT):
        return ReportLine(name, Verdict.OK, "free for `headrace kafka start`")
    if cluster_id(f"127.0.0.1:{_BROKER_PORT}", timeout_s=2):
        return ReportLine(name, Verdict.OK, f"Kafka answers there{port_owner(_BROKER_PORT)}")
    advice = "stop that, or run `headrace kafka start --port N` and set bootstrap.servers to it"
    return ReportLine(name, Verdict.WARN, f"taken{port_owner(_BROKER_PORT)}, and it does not answer as Kafka", advice)


def _broker(bootstrap_servers: str) -> ReportLine:
    cluster = cluster_id(bootstrap_servers, timeout_s=3)
    if cluster is None:
        advice = "`headrace kafka start --daemon` gives one; --bootstrap-servers looks for another"
        return ReportLine("broker", Verdict.WARN, f"nothing answers as Kafka at {bootstrap_servers}", advice)
    return ReportLine("broker", Verdict.OK, f"{bootstrap_servers} answers, cluster {cluster}")


def _nearest(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())
