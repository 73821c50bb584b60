"""The settings with which Spark's driver starts: Headrace's own, under the worker's properties."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.worker.engine import class_archive
from headrace.worker.engine.cluster import is_local, with_jars

log = logging.getLogger(__name__)

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
    # Otherwise a column named within a function of a select is an alias before it in the select, if one has its name.
    "spark.sql.lateralColumnAlias.enableImplicitResolution": "false",
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
_TRIES = "spark.task.maxFailures"
_AUTHENTICATE = "spark.authenticate"


def driver_conf(given: Mapping[str, str], jars: Sequence[Path]) -> dict[str, str]:
    """The settings of a driver with these jars; `given` are the worker's."""
    conf = {**DEFAULTS, **given}
    is_on_worker = is_local(conf["spark.master"])
    if not is_on_worker:
        conf = {key: value for key, value in conf.items() if key not in _LOCAL_ONLY or key in given}
    conf = with_jars(_authenticated(_tried_once(conf)), jars)
    if is_on_worker:
        conf[_JAVA_OPTIONS] += class_archive.without_signatures(conf[_JAVA_OPTIONS])
        conf[_JAVA_OPTIONS] += class_archive.reading(jars)
    conf[_JAVA_OPTIONS] += _logging(conf[_JAVA_OPTIONS])
    return conf


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
