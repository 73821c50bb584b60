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
from headrace.worker.engine import class_archive
from headrace.worker.engine.cluster import SparkCluster, is_local, python_for_executors, with_jars
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
from headrace.worker.machine.vital_threads import VitalThread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
_WATCH_SECONDS = 0.5
"""The pause between looks; a failed call has it look at once."""
_BACKOFF = Backoff(0.5, 30.0)

_AVRO_LIMITS = " ".join(
    f"-Dorg.apache.avro.limits.{what}.maxLength={most}"
    for what, most in (("collectionItems", 10_000_000), ("string", 64 << 20), ("bytes", 64 << 20))
)
"""Avro allocates the length that a record claims before it reads it: five bytes could end a JVM."""

DEFAULTS = {
    "spark.master": "local[*]",
    "spark.app.name": "headrace",
    "spark.driver.memory": "768m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # The JVM leaves methods of over 8,000 bytes of bytecode interpreted, and Spark's generated ones are often larger.
    # Tier4*: code is compiled a second time only after four times the JVM's usual number of runs: a start takes 0.6 s
    # less (2 cores), which that compiler had to itself. Heap sizes: the JVM would begin with a heap of a 64th of the
    # machine's memory, and use all of its heap for new objects. TrimNativeHeapInterval: memory that its compilers
    # allocate outside the heap would stay with it: 70 MB after 200 connectors began. (An older JVM that does not know
    # the option goes on without: Spark has it ignore those.) Survivors: rows that a job has fetched and not written
    # yet, some 8 MB, must find room among them: else they fill the old generation, which was collected 34 times in 65 s
    # of jobs, 0.17 s each (5 times in 88 s so). They are copied at each collection of the young generation: with half
    # of the heap for it instead of a third these are fewer, and a topic to a file is 5 % cheaper; 20 small sinks take
    # 17 MB more.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:-DontCompileHugeMethods -Xss1m "
    "-XX:Tier4InvocationThreshold=20000 -XX:Tier4MinInvocationThreshold=2400 -XX:Tier4CompileThreshold=60000 "
    "-XX:Tier4BackEdgeThreshold=160000 "
    "-XX:InitialHeapSize=128m -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40 -XX:-UsePerfData "
    "-XX:NewRatio=1 -XX:SurvivorRatio=3 -XX:TargetSurvivorRatio=90 -XX:TrimNativeHeapInterval=10000 "
    "-Dorg.apache.kafka.automatic.config.providers=none " + _AVRO_LIMITS,
    "spark.executor.extraJavaOptions": _AVRO_LIMITS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.scheduler.mode": "FAIR",
    "spark.speculation": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Connect's field names are case-sensitive; its JSON may have a member twice, the last one counts.
    "spark.sql.caseSensitive": "true",
    "spark.sql.variant.allowDuplicateKeys": "true",
    "spark.sql.shuffle.partitions": "2",
    # Spark's older reader of Kafka makes a Row of each record and takes it apart again: half as much once more.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    # Spark keeps consumers, and what they have fetched beyond a job's range, for the next job (`kafka_frames`): it
    # comes at once or never. Kept for five minutes, the default, they were most of the heap.
    "spark.kafka.consumer.cache.timeout": "1m",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "10s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "10s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "5s",
    # Each function within a function takes the analyzer a turn or two (`headrace.converters.json.nodes`).
    "spark.sql.analyzer.maxIterations": "1000",
    # Any other limit makes Spark add up the size of all vectors after every row: 25 microseconds each with a nested
    # column (measured: 2,000,000 rows took 60 s instead of 5). Jobs bound them by rows (`job.rows_at_once`).
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    "spark.sql.execution.arrow.pyspark.validateSchema.enabled": "false",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "false",
    # Otherwise PySpark sends the JVM the Python source line of each expression: six calls for every one.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Not for hanging workers (`python_workers` sees them sooner) but for those that wait for ever.
    "spark.python.worker.idleTimeoutSeconds": "600",
    "spark.python.worker.killOnIdleTimeout": "true",
    "spark.redaction.regex": "(?i)secret|password|token|access[.]?key|credential|jaas|sasl|private|\\bkey\\b",
}
"""Headrace's own defaults, under the worker's properties."""

_LOCAL_ONLY = ("spark.driver.host", "spark.driver.bindAddress")
"""Defaults with which executors on other hosts could not reach the driver."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_LOG_CONFIG = "log4j2.configurationFile"
_INCUBATOR = "WARNING: Using incubator modules"
"""Printed by the JVM because Spark adds a module; no option suppresses it."""
_TRIES = "spark.task.maxFailures"
_AUTHENTICATE = "spark.authenticate"
_AT_LAUNCH = ("spark.driver.", "spark.jars", "spark.master", "spark.submit.", "spark.yarn.", "spark.kubernetes.")


class EngineLost(RetriableError):
    """The Spark driver died, hangs or is being started: its work is retried in the next session."""


class Spark:
    """Owns the worker's one Spark session, over all restarts of its driver."""

    def __init__(self, conf: Mapping[str, str], jars: Sequence[Path], python_path: Sequence[str] = ()) -> None:
        self._python_path = list(python_path)
        self._conf = DEFAULTS | dict(conf)
        if not self.is_local:
            self._conf = {key: value for key, value in self._conf.items() if key not in _LOCAL_ONLY or key in conf}
        self._conf = with_jars(_authenticated(_tried_once(self._conf)), jars)
        if self.is_local:
            self._conf[_JAVA_OPTIONS] += class_archive.without_signatures(self._conf[_JAVA_OPTIONS])
            self._conf[_JAVA_OPTIONS] += class_archive.reading(jars)
        self._conf[_JAVA_OPTIONS] += _logging(self._conf[_JAVA_OPTIONS])
        self._leaving = False
        self._home = scratch_folder("spark")
        self._executors_python = python_for_executors(self._conf)
        self._cluster = None if self.is_local else SparkCluster(self._python_path, Path(self._home.name))
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
    def takes_jobs(self) -> bool:
        """True if executors can run jobs."""
        return self._cluster is None or self._cluster.is_ready

    @property
    def executors_trouble(self) -> str | None:
        """The reason that executors elsewhere cannot run jobs; None if none is known."""
        return None if self._cluster is None else self._cluster.trouble

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

    def doubt_executors(self, text: str) -> str:
        """Check all executors again if this error text of a job says that one lacks something; returns what."""
        return "" if self._cluster is None else self._cluster.doubt(text)

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
                    cause = self._cluster.ended if self._cluster is not None else None
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
        if self._cluster is not None:
            self._cluster.begin(session)
        self._ready.set()
        log.info("Spark %s is ready after %.1f s (%s)", session.version, time.monotonic() - began, context.master)
        self._tell(True)

    def _takes(self, line: str) -> bool:
        """True for a line of the driver's output that is not to be shown."""
        return line.startswith(_INCUBATOR) or (self._cluster is not None and self._cluster.takes(line))

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
                return f"its process {process.pid} ended with {process.returncode}"
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
                self._executors_lost = None if self._cluster is None else self._cluster.lost(session)
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
            if self._cluster is not None:
                self._cluster.end()
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


def _tried_once(conf: Mapping[str, str]) -> dict[str, str]:
    """Let Spark repeat no task: a second attempt is one whose executor was lost (`executors`)."""
    if (given := conf.get(_TRIES, "1")) != "1":
        log.warning("%s=%s is not used, it stays 1: the worker itself tries a failed batch again", _TRIES, given)
    return {**conf, _TRIES: "1"}


def _authenticated(conf: Mapping[str, str]) -> Mapping[str, str]:
    """Let the driver answer only callers that know its secret, unless an operator decided otherwise.

    Decided: Spark makes the secret, in the driver's JVM, because so it is in no setting, command line or page; loses: a
    stand-alone cluster, or YARN's external shuffle service, which have to be given the same, is open until its operator
    does so.
    """
    if _AUTHENTICATE in conf:
        return conf
    master, shuffles = conf["spark.master"], conf.get("spark.shuffle.service.enabled", "")
    if master.startswith(("spark://", "mesos://", "local-cluster[")) or (master == "yarn" and shuffles == "true"):
        log.warning(
            "Whoever reaches this host may call Spark's driver: set %s=true and %s.secret here and in the "
            "cluster's own configuration (docs/spark-cluster.md#secrets)",
            _AUTHENTICATE,
            _AUTHENTICATE,
        )
        return conf
    return {**conf, _AUTHENTICATE: "true"}


def _logging(java_options: str) -> str:
    """The JVM option with which Spark logs as the worker does; empty if an operator configured Spark's log."""
    home = os.environ.get("SPARK_CONF_DIR") or Path(os.environ.get("SPARK_HOME", ""), "conf")
    if _LOG_CONFIG in java_options or Path(home, "log4j2.properties").exists():
        return ""
    return f" -D{_LOG_CONFIG}={Path(__file__).with_name('log4j2.properties').as_uri()}"


def _works(session: SparkSession) -> bool:
    """True if the driver answers and takes jobs."""
    try:
        return not scala_context(session).isStopped()
    except (Py4JError, OSError):
        return False
