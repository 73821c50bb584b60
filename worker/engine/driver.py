"""Spark's driver: started in the background, watched, started again when it dies or hangs.

Only this module starts, ends or repairs a Spark session. Other modules call `Spark.session()`; when a call into the JVM
fails, `Spark.using()` tells if the driver was lost (`EngineLost`: the batch is tried again in the next session) or the
call was simply wrong (the error itself).

Decided: the JVM has another current directory, because the current directory comes first on the executors' `sys.path`,
and a checkout's `config/` would hide other packages there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from py4j.protocol import Py4JError, Py4JNetworkError

from headrace.plugins.backoff import Backoff
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.catalyst import liveness
from headrace.plugins.scratch import scratch_folder
from headrace.worker.engine.cluster import LocalExecutors, SparkCluster, is_local, python_for_executors
from headrace.worker.engine.driver_conf import driver_conf
from headrace.worker.engine.gateway import installed_spark
from headrace.worker.engine.gateway import opened as opened_gateway
from headrace.worker.engine.hang_detection import HangDetector
from headrace.worker.engine.python_workers import LOOK_SECONDS, PythonWorkers
from headrace.worker.engine.spark_internals import (
    accumulator_server,
    end_jvm,
    forget_session,
    new_context,
    scala_context,
)
from headrace.worker.logging.redaction import passed_on
from headrace.worker.machine.memory_limit import how_ended
from headrace.worker.machine.vital_threads import VitalThread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
_WATCH_SECONDS = 0.5
"""The pause between looks; a failed call has it look at once."""
_BACKOFF = Backoff(0.5, 30.0)
_INCUBATOR = "WARNING: Using incubator modules"
"""Printed by the JVM because Spark adds a module; no option suppresses it."""
_AT_LAUNCH = ("spark.driver.", "spark.jars", "spark.master", "spark.submit.", "spark.yarn.", "spark.kubernetes.")


class EngineLost(RetriableError):
    """The Spark driver died, hangs or is being started: its work is retried in the next session."""


class Spark:
    """Owns the worker's one Spark session, over all restarts of its driver."""

    def __init__(self, conf: Mapping[str, str], jars: Sequence[Path], python_path: Sequence[str] = ()) -> None:
        self._python_path = list(python_path)
        self._conf = driver_conf(conf, jars)
        self._leaving = False
        self._home = scratch_folder("spark")
        self._executors_python = python_for_executors(self._conf)
        self.executors = LocalExecutors() if self.is_local else SparkCluster(self._python_path, Path(self._home.name))
        self._signs = scratch_folder("signs", shared_memory=True)
        self._session: SparkSession | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._updates: Any = None
        self._ready = threading.Event()
        self._stopping = threading.Event()
        self._suspect = threading.Event()
        self._lock = threading.Lock()
        self._answered, self._ended = time.monotonic(), False
        self._executors_lost: str | None = None
        self._unwanted: str | None = None
        self._listeners: list[Callable[[bool], None]] = []
        self._thread = VitalThread(target=self._live, name="spark-owner")
        self.generation = 0
        """Grows with each session: programs compiled for another generation are gone."""
        self.restarts = 0

    def start(self) -> None:
        """Start the session in the background."""
        self._thread.start()

    def on_change(self, listener: Callable[[bool], None]) -> None:
        """Call `listener(True)` when a session is ready, `listener(False)` when it was lost."""
        self._listeners.append(listener)

    def off_change(self, listener: Callable[[bool], None]) -> None:
        """Call this listener no more."""
        self._listeners.remove(listener)

    @property
    def is_ready(self) -> bool:
        """True if a session can take work."""
        return self._ready.is_set()

    @property
    def is_local(self) -> bool:
        """True if executors run on the worker's own host."""
        return is_local(self._conf["spark.master"])

    @property
    def pid(self) -> int | None:
        """The process id of the driver's JVM."""
        return self._process.pid if self._process else None

    def wait_ready(self, timeout_s: float | None = None) -> bool:
        """Wait for a session; True if one became ready within the time."""
        return self._ready.wait(timeout_s)

    def session(self) -> SparkSession:
        """The session. Errors: EngineLost while there is none."""
        session = self._session
        if session is None or not self._ready.is_set():
            raise EngineLost("Spark is starting")
        return session

    @contextlib.contextmanager
    def using(self) -> Iterator[SparkSession]:
        """Yield the session for a piece of work, whose failure becomes EngineLost if the driver was lost meanwhile."""
        session, generation = self.session(), self.generation
        try:
            yield session
        except EngineLost:
            raise
        except Exception as error:
            if generation != self.generation or not self._alive_after(error):
                raise EngineLost(f"the Spark driver was lost: {error}") from error
            raise

    def exit(self) -> None:
        """Exit the JVM normally, with its shutdown hooks; no session follows."""
        process, session, self._leaving = self._process, self._session, True
        self._stopping.set()
        if process is None or session is None:
            return
        with contextlib.suppress(Py4JError, OSError):
            end_jvm(session)
        process.wait(timeout=180)

    def stop(self) -> None:
        """End the session and its JVM, also while it is being started."""
        self._stopping.set()
        self._suspect.set()
        if not self.is_ready:
            self._kill()
        if self._thread.is_alive():
            self._thread.join(timeout=15)
        self._end()
        self._home.cleanup()
        self._signs.cleanup()

    def replace(self, why: str) -> None:
        """Replace the driver soon."""
        self._unwanted = why
        self._suspect.set()

    def _alive_after(self, error: Exception) -> bool:
        """True if the driver still works after a failed call into it.

        Calls the driver itself, because the error does not tell: a driver that dies in a call leaves py4j with an empty
        answer or a torn one, and one that is ending fails its jobs.
        """
        session = self._session
        lost = session is None or isinstance(error, Py4JNetworkError | ConnectionError | EOFError)
        if lost or session is None or not _works(session):
            self._suspect.set()
            return False
        return True

    def _live(self) -> None:
        """Start a session, watch it, and repeat when it is lost."""
        failures = 0
        while not self._stopping.is_set():
            began = False
            try:
                self._begin()
                began = True
                why = self._watch()
                failures = 0
                if not self._stopping.is_set():
                    log.error("Spark's driver was lost (%s); starting a new one, tasks go on then", why)
            except Exception as error:
                # Any error, also of a machine out of threads or descriptors: this thread must go on, or Spark never
                # returns.
                failures = 1 if began else failures + 1
                if not self._stopping.is_set():
                    what = "watched any longer" if began else "started"
                    pause_s = _BACKOFF.pause(failures)
                    cause = self.executors.ended
                    said = "Spark could not be %s (again in %.0f s): %s"
                    log.error(said, what, pause_s, cause or error, exc_info=cause is None)
            self._ready.clear()
            if began:
                self.restarts += not self._stopping.is_set()
                self._tell(False)
            self._end_surely()
            if failures:
                self._stopping.wait(_BACKOFF.pause(failures))

    def _end_surely(self) -> None:
        try:
            self._end()
        except Exception:
            log.exception("Spark's last driver did not end cleanly")

    def _begin(self) -> None:
        began = time.monotonic()
        os.environ["PYSPARK_PYTHON"] = self._executors_python
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_HOME", str(installed_spark()))
        os.environ["SPARK_LOCAL_DIRS"] = self._home.name
        os.environ[liveness.FOLDER] = self._signs.name
        if self._python_path:  # plugins of plugin.path, for the executors too
            paths = [*self._python_path, *filter(None, [os.environ.get("PYTHONPATH")])]
            os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
        launch = {key: value for key, value in self._conf.items() if key.startswith(_AT_LAUNCH)}
        with passed_on(sys.stderr, self._takes) as output:
            gateway = opened_gateway(launch, Path(self._home.name), output)
        self._process = gateway.proc  # first: a failure from here on must end it
        from pyspark.sql import SparkSession

        if self._stopping.is_set():
            raise EngineLost("the worker is stopping")
        context = new_context(gateway, self._conf)
        context.setLogLevel("ERROR")
        self._updates = accumulator_server(context)
        session = SparkSession(context)
        with self._lock:
            self._session = session
            self.generation += 1
        self._answered, self._ended, self._executors_lost = time.monotonic(), False, None
        self._unwanted = None
        self._suspect.clear()
        self.executors.begin(session)
        self._ready.set()
        log.info("Spark %s is ready after %.1f s (%s)", session.version, time.monotonic() - began, context.master)
        self._tell(True)

    def _takes(self, line: str) -> bool:
        """True for a line of the driver's output that is not to be shown."""
        return line.startswith(_INCUBATOR) or self.executors.takes(line)

    def _watch(self) -> str:
        """Watch the session until it is lost; return the reason."""
        beats = threading.Thread(target=self._beat, args=(self.generation,), name="spark-beat", daemon=True)
        beats.start()
        process = self._process
        assert process is not None
        workers = PythonWorkers(process.pid, Path(self._signs.name))
        silence = HangDetector(psutil.Process(process.pid))
        look_at = time.monotonic() + LOOK_SECONDS
        while self._leaving or not self._stopping.is_set():
            if process.poll() is not None:
                return f"its process {process.pid} {how_ended(process.returncode)}"
            if time.monotonic() >= look_at:
                workers.kill_hung()
                look_at = time.monotonic() + LOOK_SECONDS
            if self._ended:
                return f"its process {process.pid} ended its work"
            if why := self._executors_lost or self._unwanted:
                return why
            silent_s = silence.hangs(self._answered, time.monotonic())
            if silent_s is not None and not self._leaving:
                return f"its process {process.pid} has not answered for {silent_s:.0f} s"
            self._suspect.wait(_WATCH_SECONDS)
            if self._suspect.is_set():
                self._suspect.clear()
                time.sleep(0.05)
        return "the worker is stopping"

    def _beat(self, generation: int) -> None:
        """Ask the JVM a small question again and again, while this generation lives."""
        while generation == self.generation and not self._stopping.is_set():
            session = self._session
            if session is None:
                return
            try:
                self._ended = scala_context(session).isStopped()
                self._executors_lost = self.executors.lost(session)
            except (Py4JError, OSError):
                return
            except Exception:
                log.exception("Spark's driver cannot be asked whether it lives")
                return
            self._answered = time.monotonic()
            self._stopping.wait(BEAT_SECONDS)

    def _tell(self, ready: bool) -> None:
        for listener in list(self._listeners):
            try:
                listener(ready)
            except Exception:
                log.exception("A task could not follow that Spark is %s", "ready" if ready else "away")

    def _kill(self) -> None:
        """Kill the JVM and its Python workers, which may outlive it."""
        with self._lock, contextlib.suppress(ProcessLookupError, PermissionError):
            if self._process is not None:
                os.killpg(self._process.pid, signal.SIGKILL)

    def _end(self) -> None:
        """Kill the JVM and its Python workers, and make pyspark forget them."""
        try:
            self.executors.end()
        finally:
            self._kill()
            with self._lock:
                self._session = None
                process, self._process = self._process, None
            try:
                if process is not None:
                    self._bury(process)
            finally:
                forget_session()

    def _bury(self, process: subprocess.Popen[bytes]) -> None:
        process.wait()
        if process.stdin:
            process.stdin.close()
        if self._updates is not None:
            self._updates.shutdown()
            self._updates = None


def _works(session: SparkSession) -> bool:
    """True if the driver answers and takes jobs."""
    try:
        return not scala_context(session).isStopped()
    except (Py4JError, OSError):
        return False
