"""Executors on other hosts: the worker sends what they need, checks them, and notices their loss.

Jobs run once a probe has found the executors equal to the worker; until then batches run inline. A job that fails
because an executor lacks something, which may have come later than the probe, has them probed again.

    session starts -> archive of Headrace and plugins -> probe -> archive of the packages that differ -> probe -> jobs

Decided: a reason that keeps executors from running jobs is one error in the log, and work goes on inline, because a
pipe that flows slowly is worth more than one that has failed; loses: without a look at the log one sees only a busy
worker.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError

from headrace.plugins.backoff import Backoff
from headrace.worker.engine.executor_archives import ExecutorArchive, packages_archive, product_archive, versions_needed
from headrace.worker.engine.executor_probe import Look, differences, look
from headrace.worker.engine.spark_internals import scala_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_LOCAL: Final = re.compile(r"local(\[.*\])?")
_PYTHON: Final = "spark.pyspark.python"
_CLASS_PATH: Final = "spark.driver.extraClassPath"
_JARS: Final = "spark.jars"
_DYNAMIC: Final = "spark.dynamicAllocation.enabled"
_SILENT_S: Final = 15.0
"""A warning follows after this time without an executor."""
_GONE_S: Final = 30.0
"""A stand-alone master's session that lost all executors, while jobs wait, is replaced after this time."""
_PAUSE: Final = Backoff(2.0, 60.0)
_GROUP: Final = "headrace-probe"
_SIGNS: Final = tuple(
    re.compile(sign)
    for sign in (r"\[PYTHON_VERSION_MISMATCH\].*", r"Cannot run program.*", r"\w*ImportError:.*|ModuleNotFoundError:.*")
)
"""Signs of what an executor's host lacks, in the text of a failed job."""
_ENDED: Final = re.compile(r"Executor updated: \S+ is now (?:FAILED|LOST|EXITED)(?: \((.*)\))? \(org\.apache\S+$")
_FOLDER: Final = re.compile(r" \(in directory \"[^\"]*\"\)")
"""The executor's own folder, which changes each time."""
_LAUNCH_REMEDY: Final = (
    "See stderr of the application below the work folder of a Spark worker, and that worker's log; JAVA_HOME there and "
    "the settings spark.executor.* decide how executors start."
)
_REMEDY: Final = (
    "Executors need the worker's versions of Python and Spark: set spark.pyspark.python to such a Python on their "
    "hosts, or send one by spark.archives (docs/spark-cluster.md#what-executors-need). Until then batches run in this "
    "worker."
)


def is_local(master: str) -> bool:
    """True if executors are threads of the driver."""
    return _LOCAL.fullmatch(master) is not None


def python_for_executors(conf: Mapping[str, str]) -> str:
    """The Python that executors start: the configured one, or else one at the same path as the worker's."""
    if is_local(conf["spark.master"]):
        return sys.executable
    return conf.get(_PYTHON) or os.environ.get("PYSPARK_PYTHON") or sys.executable


def with_jars(conf: Mapping[str, str], jars: Sequence[Path]) -> dict[str, str]:
    """Add these jars, and those that an operator named, to the driver and to executors elsewhere."""
    own = [str(jar) for jar in jars]
    if is_local(conf["spark.master"]):  # in the driver's own JVM the class path does, and can be archived
        return {**conf, _CLASS_PATH: ":".join([*own, *filter(None, [conf.get(_CLASS_PATH)])])}
    drivers = [one for one in conf.get(_CLASS_PATH, "").split(":") if one.endswith(".jar") and Path(one).is_file()]
    return {**conf, _JARS: ",".join(dict.fromkeys([*own, *filter(None, conf.get(_JARS, "").split(",")), *drivers]))}


@dataclass
class _Checked:
    """The state of one session's executors."""

    session: SparkSession
    over: threading.Event = field(default_factory=threading.Event)
    """Set once the session is over."""
    ready: threading.Event = field(default_factory=threading.Event)
    """Set once executors can run jobs."""
    doubts: int = 0
    """The number of times that a job's failure had them checked again."""


class LocalExecutors:
    """The executors of local sessions: threads of the driver, which are ready with it and lack nothing."""

    is_ready = True
    trouble: str | None = None
    ended: str | None = None

    def begin(self, _session: SparkSession) -> None: ...

    def end(self) -> None: ...

    def takes(self, _line: str) -> bool:
        return False

    def doubt(self, _text: str) -> str:
        return ""

    def lost(self, _session: SparkSession) -> str | None:
        return None


class SparkCluster:
    """The executors of the worker's sessions on other hosts, one session after the other."""

    def __init__(self, plugin_paths: Sequence[str], home: Path) -> None:
        """`home`: a folder for as long as the worker lives."""
        self._plugin_paths = plugin_paths
        self._home = home
        self._checked: _Checked | None = None
        self._lock = threading.Lock()
        self._had_executors = False
        self._none_since: float | None = None
        self.trouble: str | None = None
        """The reason that executors cannot run jobs, as logged last; None if none is known."""
        self.ended: str | None = None
        """The reason that the last executor ended as it started; None if executors have run jobs since."""

    @property
    def is_ready(self) -> bool:
        """True if executors can run jobs."""
        checked = self._checked
        return checked is not None and checked.ready.is_set() and not checked.over.is_set()

    def begin(self, session: SparkSession) -> None:
        """Equip and check the executors of this session in the background."""
        self._checked, self._had_executors, self._none_since = _Checked(session), False, None
        self.trouble = self.ended
        self._start_check(self._checked)

    def end(self) -> None:
        """Note that the session is over."""
        if self._checked is not None:
            self._checked.over.set()

    def takes(self, line: str) -> bool:
        """True for a line of the driver's log that tells of an executor's end, which is noted.

        A stand-alone master removes an application whose executors have ended ten times, and Spark's errors then tell
        of the removal alone.
        """
        if (found := _ENDED.search(line)) is None:
            return False
        if not self.is_ready:
            why = f"Spark's executors end as they start: {_FOLDER.sub('', found[1] or found[0])}. {_LAUNCH_REMEDY}"
            if why != self.ended:
                self.ended = self.trouble = why
                log.error("%s", why)
        return True

    def doubt(self, text: str) -> str:
        """Check the executors again if this text of a failed job says that one lacks something.

        Returns what it lacks; empty: the job failed for another reason. The check begins later with each doubt, so that
        a job that fails although the executors are well is not tried again at once: its batches run inline meanwhile.
        """
        found, checked = _sign(text), self._checked
        if not found or checked is None:
            return ""
        with self._lock:
            begins = checked.ready.is_set() and not checked.over.is_set()
            if begins:
                checked.ready.clear()
                checked.doubts += 1
        if begins:
            log.warning(
                "A job failed for what an executor lacks (%s): batches run in this worker until the executors of %s "
                "have been checked again",
                *(found, _master(checked.session)),
            )
            self._start_check(checked)
        return found

    def _start_check(self, checked: _Checked) -> None:
        threading.Thread(target=self._check, args=(checked,), name="spark-executors", daemon=True).start()

    def lost(self, session: SparkSession) -> str | None:
        """Say why the session has to be replaced: a restarted master does not know it and gives it nothing.

        YARN and Kubernetes do not forget it, and may take minutes to start an executor. With dynamic allocation a
        session may have none and be well, so it is never replaced. Errors: Py4JError.
        """
        if not _master(session).startswith("spark://"):
            return None
        context = scala_context(session)
        # Not those with a block manager: one may be left of an executor that was lost while it registered.
        executors: int = context.getExecutorIds().size()
        self._had_executors |= executors > 0
        idle = not self._had_executors or executors > 0 or not len(context.statusTracker().getActiveJobIds())
        if idle:
            self._none_since = None
        elif self._none_since is None:
            self._none_since = time.monotonic()
        elif time.monotonic() - self._none_since > _GONE_S and not context.getConf().getBoolean(_DYNAMIC, False):
            return f"{context.master()} took its executors away and has given it none for {_GONE_S:.0f} s"
        return None

    def _check(self, checked: _Checked) -> None:
        """Equip and check the executors, again and again until they can run jobs."""
        session, over, said, attempts = checked.session, checked.over, "", 0
        if checked.doubts:
            over.wait(_PAUSE.pause(checked.doubts))
        while not over.is_set():
            try:
                why = self._equip(session)
            except Exception as error:  # whatever Spark raises for a host that lacks something
                why = _shown(error)
            if over.is_set():
                return
            if not why:
                self.trouble = self.ended = None
                checked.ready.set()
                return
            attempts += 1
            if why != said and self.ended is None:
                self.trouble = f"The executors of {_master(session)} cannot run Headrace's jobs: {why}. {_REMEDY}"
                log.error("%s", self.trouble)
                said = why
            over.wait(_PAUSE.pause(attempts))

    def _equip(self, session: SparkSession) -> str:
        """Send executors what they need; return why they still cannot run jobs, or an empty text."""
        product, paths = product_archive(self._plugin_paths)
        needed = versions_needed()
        self._send(session, product, paths)
        own, looks = look(sorted(needed)), self._looks(session, sorted(needed))
        found = differences(own, looks, product.folder)
        if found.packages and not found.others:
            packages = packages_archive(found.packages)
            log.info("Sending executors the worker's %s", ", ".join(f"{n} {needed[n]}" for n in sorted(found.packages)))
            self._send(session, packages, [packages.folder, *paths])
            looks = self._looks(session, sorted(needed))
            found = differences(own, looks, product.folder)
        missing = [f"the packages {', '.join(sorted(found.packages))} differ"] if found.packages else []
        if not found.others and not missing:
            hosts = ", ".join(sorted({one.host for one in looks}))
            log.info("Spark's executors on %s have %s and run Headrace's jobs", hosts, own.python)
        return "; ".join([*found.others, *missing])

    def _send(self, session: SparkSession, archive: ExecutorArchive, paths: Sequence[str]) -> None:
        """Send executors this archive, and put these folders of it on their next Python processes' path."""
        context = session.sparkContext
        kept = self._home / archive.path.name
        if not kept.exists():  # a link of its own: the cache is pruned, and an executor may come at any time
            try:
                os.link(archive.path, kept)
            except OSError:
                with tempfile.TemporaryDirectory(dir=self._home) as folder:  # half a copy never has this name
                    os.replace(shutil.copyfile(archive.path, Path(folder, kept.name)), kept)
        context.addArchive(ExecutorArchive(kept, archive.folder).uri)
        given = context.getConf().get("spark.executorEnv.PYTHONPATH")
        context.environment["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [given])])

    def _looks(self, session: SparkSession, names: Sequence[str]) -> list[Look]:
        """Inspect the executors' Pythons. Errors: whatever Spark raises."""
        context = session.sparkContext
        warning = threading.Timer(_SILENT_S, self._warn, [session])
        warning.daemon = True
        warning.start()
        try:
            context.setJobGroup(_GROUP, "Compares the executors with the worker")
            tasks = max(2, context.defaultParallelism)
            return context.parallelize(range(tasks), tasks).mapPartitions(partial(_look_at, names)).collect()
        finally:
            warning.cancel()

    def _warn(self, session: SparkSession) -> None:
        if self._checked is None or self._checked.over.is_set() or self.ended is not None:
            return
        with contextlib.suppress(Py4JError):  # of a session that has ended
            self.trouble = f"{self._waits_for(session)}. Until then batches run in this worker."
            log.warning("%s", self.trouble)

    @staticmethod
    def _waits_for(session: SparkSession) -> str:
        """Say why the probe waits: executors have not answered it, or there are none."""
        context = scala_context(session)
        running = context.getExecutorIds().size()
        if running:
            return (
                f"{running} executors of {_master(session)} have not answered Headrace's probe for {_SILENT_S:.0f} s: "
                "their Python may be slow to start, or cannot; see stderr of the executors on the master's web page"
            )
        return (
            f"{_master(session)} has given the worker no executor for {_SILENT_S:.0f} s. Either no host has as many "
            "free cores, and as much memory, as spark.executor.cores and spark.executor.memory say (the master's web "
            "page tells), or executors end as they start: their reason is in stderr of "
            f"{context.applicationId()}, on that page or below the work folder of a Spark worker"
        )


def _look_at(names: Sequence[str], _: object) -> list[Look]:
    return [look(names)]


def _master(session: SparkSession) -> str:
    return str(session.sparkContext.master)


def _shown(error: Exception) -> str:
    """The part of a failed job's text with the reason; the same one for every executor and attempt."""
    text = str(error)
    return _sign(text) or text.partition("\n")[0][:400].strip().rstrip(".")


def _sign(text: str) -> str:
    """The part of a failed job's text that says what an executor's host lacks; empty if nothing."""
    found = next(filter(None, (sign.search(text) for sign in _SIGNS)), None)
    return found[0][:400].strip().rstrip(".") if found else ""
