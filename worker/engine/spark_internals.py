"""Spark's private names that only the engine needs: pyspark's start of its JVM, and its state of a session.

Seen in pyspark 4.2.1 and 4.3.0. Importing this module imports no pyspark, because the JVM is launched first
(`gateway`). Names for expressions and plans are in `headrace.plugins.interop.catalyst.spark_internals`.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import struct
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_MAIN: Final = "org.apache.spark.api.python.PythonGatewayServer"
_ADDRESS_FILE: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
_OPENED: Final = (
    *("java.base/java.lang", "java.base/java.lang.invoke", "java.base/java.lang.reflect", "java.base/java.io"),
    *("java.base/java.net", "java.base/java.nio", "java.base/java.util", "java.base/java.util.concurrent"),
    *("java.base/java.util.concurrent.atomic", "java.base/jdk.internal.ref", "java.base/sun.nio.ch"),
    *("java.base/sun.nio.cs", "java.base/sun.security.action", "java.base/sun.util.calendar"),
    "java.security.jgss/sun.security.krb5",
)
_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "--add-modules=jdk.incubator.vector",
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
    "-Dderby.connection.requireAuthentication=false",
)
_connecting: Final = threading.Lock()


def jvm_options() -> tuple[str, ...]:
    """The options that Spark gives each JVM of its own."""
    return _OPTIONS


def gateway_main() -> str:
    """The main class of the JVM that pyspark calls."""
    return _MAIN


def telling_address(file: Path) -> dict[str, str]:
    """The environment with which that main class writes its address to this file."""
    return {"SPARK_CONNECT_MODE": "0", _ADDRESS_FILE: str(file)}


def address_told(data: bytes) -> tuple[int, str]:
    """Parse port and secret as the main class wrote them."""
    port, length = struct.unpack_from(">ii", data)
    return port, data[8 : 8 + length].decode()


def import_pyspark() -> None:
    """Import pyspark, and the module in which its first call into a JVM looks for numpy.

    Decided: without pandas, whose version that module checks for Spark's own tests, because importing it took a
    starting worker 0.8 s; loses: a name inside pyspark, which a test looks for.
    """
    importlib.import_module("pyspark.sql.functions")  # its modules keep the function that is hidden next
    utils: Any = importlib.import_module("pyspark.sql.pandas.utils")
    known = utils.require_minimum_pandas_version
    utils.require_minimum_pandas_version = _no_pandas
    try:
        importlib.import_module("pyspark.testing.utils")
    finally:
        utils.require_minimum_pandas_version = known


def _no_pandas() -> None:
    raise ImportError("pandas is not asked for")


def submitted(conf: Mapping[str, str], popen: Mapping[str, Any]) -> Any:
    """Open pyspark's gateway to a new JVM that spark-submit starts."""
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    launch = SparkConf(loadDefaults=False)
    for key, value in conf.items():
        launch.set(key, value)
    return launch_gateway(launch, popen)  # type: ignore[no-untyped-call]


def connected(port: int, secret: str) -> Any:
    """Open pyspark's gateway to a running JVM; it takes the address from the environment."""
    from pyspark.java_gateway import launch_gateway

    with _connecting:
        os.environ[_PORT], os.environ[_SECRET] = str(port), secret
        try:
            return launch_gateway()  # type: ignore[no-untyped-call]
        finally:
            for name in (_PORT, _SECRET):
                with contextlib.suppress(KeyError):
                    del os.environ[name]


def new_context(gateway: Any, conf: Mapping[str, str]) -> SparkContext:
    """Make a context in the JVM of this gateway."""
    from pyspark import SparkConf, SparkContext

    made = SparkConf(loadDefaults=False, _jvm=gateway.jvm)
    for key, value in conf.items():
        made.set(key, value)
    return SparkContext(gateway=gateway, conf=made)


def accumulator_server(context: Any) -> Any:
    """The server of tasks' accumulators; it prints no traceback when its JVM ends."""
    server = context._accumulatorServer
    server.handle_error = lambda *_: None
    return server


def forget_session() -> None:
    """Clear pyspark's module state: `getOrCreate` and `SparkContext` would else go on using the dead gateway."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context: Any = SparkContext
    gateway = context._gateway
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
    context._gateway = context._jvm = context._active_spark_context = None
    context._next_accum_id = 0
    session: Any = SparkSession
    session._instantiatedSession = session._activeSession = None


def end_jvm(session: SparkSession) -> None:
    """Exit the JVM normally, with its shutdown hooks. Errors: Py4JError, OSError."""
    java: Any = session._jvm
    java.java.lang.System.exit(0)


def scala_context(session: SparkSession) -> Any:
    """The session's context in the JVM, which can do more than pyspark's."""
    context: Any = session.sparkContext
    return context._jsc.sc()


def cancel_jobs(session: SparkSession, group: str) -> None:
    """End the jobs of a group soon, also those that have not begun. Errors: Py4JError."""
    # PySpark's cancelJobGroup has no effect on a job that is still being planned.
    scala_context(session).cancelJobGroupAndFutureJobs(group)


def jvm_thread(session: SparkSession) -> str:
    """The id of the JVM's thread that serves this thread. Errors: Py4JError, OSError."""
    java: Any = session._jvm
    return str(java.java.lang.Thread.currentThread().getId())


def sql_metrics(session: SparkSession, job: int) -> list[str]:
    """The metrics of a job's query, each as `id -> value`. Errors: Py4JError, OSError."""
    execution = scala_context(session).statusStore().jobWithAssociatedSql(job)._2()
    if not execution.isDefined():
        return []
    store: Any = session._jsparkSession
    return list(store.sharedState().statusStore().executionMetrics(execution.get()).mkString(";").split(";"))


def thread_dumps(session: SparkSession) -> Iterator[tuple[str, str]]:
    """Each executor's id and its threads' stacks, also the driver's. Errors: Py4JError, OSError."""
    jvm: Any = session._jvm
    context = scala_context(session)
    executors = context.statusStore().executorList(True).iterator()
    while executors.hasNext():
        executor = executors.next().id()
        dump = context.getExecutorThreadDump(executor)
        if dump.isDefined():
            yield executor, jvm.scala.runtime.ScalaRunTime.stringOf(dump.get())


class Binder:
    """Binds expressions to the attributes of their input rows."""

    def __init__(self, jvm: Any) -> None:
        expressions = jvm.org.apache.spark.sql.catalyst.expressions
        self._bind = expressions.BindReferences.bindReferences
        self._attributes = getattr(expressions, "package$AttributeSeq")
        self._clone = jvm.org.apache.commons.lang3.SerializationUtils.clone

    def bound(self, expressions: Any, given: Any) -> Any:
        """Copy the expressions, bound to the given attributes."""
        return self._bind(self._clone(expressions), self._attributes(given))
