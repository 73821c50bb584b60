"""Spark's private names: attributes of pyspark's objects, and classes inside the driver's JVM.

Seen in pyspark 4.2.1 and 4.3.0; classic Spark only. Names that only the engine needs are in
`headrace.worker.engine.spark_internals`, the Java side is in `worker/engine/Lane.java`. No other module uses one
(`tests/unit/test_private_names.py`), and `make upgrade-check` tries the newest Spark.

Plans and expressions are objects of the JVM; walking them calls their methods there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

JAVA_ERRORS: Final = (CapturedException, Py4JJavaError)
"""Errors of calls into the JVM; PySpark has its own classes for some Java exceptions."""
_SPARK_TYPES: Final = {"int": "IntegerType", "long": "LongType", "boolean": "BooleanType", "byte[]": "BinaryType"}


def thrown_in_java(error: BaseException | None) -> Any:
    """Return the Java exception behind one of `JAVA_ERRORS`; None if there is none."""
    return error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)


def active_context() -> Any:
    """Return the context of the running Spark session."""
    context = SparkContext._active_spark_context
    assert context is not None, "columns are made while Spark runs"
    return context


def complete_context() -> Any:
    """Return the context of this process; None if there is none or it is not yet complete."""
    context = SparkContext._active_spark_context  # active before it is complete
    return None if getattr(context, "_jsc", None) is None else context


def current_session() -> SparkSession | None:
    """Return the session of this process, without a call into the JVM."""
    return SparkSession._instantiatedSession


def jvm_of(owner: Any) -> Any:
    """Return the JVM of a session or a context; its attributes are Java's packages."""
    return owner._jvm


def java_session(session: SparkSession) -> Any:
    """Return the JVM's object of a session."""
    return session._jsparkSession


def java_type(session: SparkSession, of: DataType) -> Any:
    """Return the JVM's object of a type."""
    return java_session(session).parseDataType(of.json())


def java_strings(context: Any, rows: Sequence[Sequence[str]]) -> Any:
    """Return an array of arrays of Java Strings, all of one length."""
    made = context._gateway.new_array(context._jvm.java.lang.String, len(rows), len(rows[0]))
    for row, texts in enumerate(rows):
        for at, text in enumerate(texts):
            made[row][at] = text
    return made


def hadoop_configuration(context: Any) -> Any:
    """Return Spark's Hadoop configuration."""
    return context._jsc.hadoopConfiguration()


def empty_frame(session: SparkSession, of: StructType) -> DataFrame:
    """Return a frame without rows, whose plan is one leaf.

    `createDataFrame` would send its rows through an encoder, which is compiled first and never used.
    """
    context: Any = session.sparkContext
    made = java_session(session).internalCreateDataFrame(context._jsc.emptyRDD().rdd(), java_type(session, of), False)
    return DataFrame(made, session)


def frame_of(session: SparkSession, plan: Any) -> DataFrame:
    """Return the frame of a logical plan."""
    return DataFrame(catalyst(session).dataset.ofRows(java_session(session), plan), session)


def analyzed(frame: DataFrame) -> Any:
    """Return a frame's plan after the analyzer."""
    return frame._jdf.queryExecution().analyzed()


def optimized(frame: DataFrame) -> Any:
    """Return a frame's plan after the optimizer."""
    return frame._jdf.queryExecution().optimizedPlan()


def functions_known(session: SparkSession) -> Any:
    """Return the registry of functions that a session's statements may call."""
    return java_session(session).sessionState().functionRegistry()


def each(sequence: Any) -> Iterator[Any]:
    """Yield the items of a Scala sequence."""
    for index in range(sequence.size()):
        yield sequence.apply(index)


def scala_object(package: Any, name: str) -> Any:
    """Return a Scala object of a package."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


class Catalyst:
    """Spark's own classes and objects, each looked up once: a look-up costs a call into the JVM for each dot."""

    def __init__(self, jvm: Any) -> None:
        sql = jvm.org.apache.spark.sql
        inner, patterns = sql.catalyst, sql.catalyst.trees.TreePattern
        self._to_seq = jvm.PythonUtils.toSeq
        self._nothing, self._none = self._to_seq([]), scala_object(jvm.scala, "None")
        self._class, self._object_type = jvm.java.lang.Class, sql.types.ObjectType
        self._known_types = {name: scala_object(sql.types, spark) for name, spark in _SPARK_TYPES.items()}
        self._type_from_json = sql.types.DataType.fromJson
        self.string_type = scala_object(sql.types, "StringType")
        self.parser = scala_object(inner.parser, "CatalystSqlParser")
        self.subquery, self.clock, self.python = (
            getattr(patterns, name)() for name in ("PLAN_EXPRESSION", "CURRENT_LIKE", "PYTHON_UDF")
        )
        self.project, self.alias_of_plan = (
            inner.plans.logical.Project,
            scala_object(inner.plans.logical, "SubqueryAlias"),
        )
        self.hidden = self.project.hiddenOutputTag()
        self.inlined = scala_object(inner.optimizer, "CollapseProject").buildCleanedProjectList
        self.dataset = scala_object(sql.classic, "Dataset")
        columns = sql.classic.ExpressionUtils
        self._to_column, self._to_expression = columns.column, columns.expression
        self._alias, self._new_id = inner.expressions.Alias, inner.expressions.NamedExpression.newExprId
        objects = inner.expressions.objects
        self._literal, self._new = inner.expressions.Literal, objects.NewInstance
        self._invoke, self._invoke_static = objects.Invoke, objects.StaticInvoke
        self._type_of_columns = inner.types.DataTypeUtils.fromAttributes
        self.attempt = inner.expressions.TryEval
        """Makes an expression that is null if the given one raises."""
        self.pretty = scala_object(inner.util, "package").toPrettySQL

    def seq(self, items: Sequence[Any]) -> Any:
        """Return a Scala sequence."""
        return self._to_seq(list(items)) if items else self._nothing

    def named(self, expression: Any, name: str, as_id: Any = None) -> Any:
        """Return the expression under a name."""
        as_id = self._new_id() if as_id is None else as_id
        return self._alias(expression, name, as_id, self._nothing, self._none, self._nothing)

    def column(self, expression: Any) -> Column:
        """Return the column of an expression."""
        return Column(self._to_column(expression))

    def expression(self, column: Column) -> Any:
        """Return the expression of a column."""
        return self._to_expression(column._jc)

    def type_of(self, columns: Sequence[Any]) -> Any:
        """Return the JVM's type of rows of these attributes."""
        return self._type_of_columns(self.seq(columns))

    def type(self, java: str) -> Any:
        """Return Spark's name for a Java type."""
        if java not in self._known_types:
            self._known_types[java] = self._object_type(self._class.forName(java))
        return self._known_types[java]

    def type_of_object(self, made: Any) -> Any:
        """Return Spark's name for the class of an object of the driver."""
        return self._object_type(made.getClass())

    def java_type(self, of: DataType) -> Any:
        """Return the JVM's object of a type."""
        return self._type_from_json(of.json())

    def constant(self, made: Any, of_type: Any) -> Any:
        """Return the expression of an object of the driver."""
        return self._literal(made, of_type)

    def new(self, java: str, arguments: Sequence[Any]) -> Any:
        """Return the expression of a new object of this class for each row."""
        of, given = self._class.forName(java), self.seq(arguments)
        return self._new(of, given, self._nothing, True, self.type(java), self._none)

    def call(self, on: Any, method: str, returns: Any, arguments: Sequence[Any]) -> Any:
        """Return the expression of a method call; null if one of its arguments is null."""
        given, nothing = self.seq(arguments), self._nothing
        return self._invoke(on, method, returns, given, nothing, True, True, True)

    def static(self, java: str, method: str, returns: Any, arguments: Sequence[Any]) -> Any:
        """Return the expression of a static method call; null if one of its arguments is null."""
        of, given, nothing = self._class.forName(java), self.seq(arguments), self._nothing
        return self._invoke_static(of, returns, method, given, nothing, True, True, True, self._none)

    def spark_string(self, java_string: Any) -> Any:
        """Return the expression of a Java String as Spark text."""
        return self.static("org.apache.spark.unsafe.types.UTF8String", "fromString", self.string_type, [java_string])

    def as_hive_directory(self, java_string: Any) -> Any:
        """Return the expression of a Java String, escaped as Hive does in names of directories."""
        owner = "org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils"
        return self.static(owner, "escapePathName", self.type("java.lang.String"), [java_string])


_known: WeakKeyDictionary[Any, Catalyst] = WeakKeyDictionary()


def catalyst(session: SparkSession) -> Catalyst:
    """Return the classes of this session's JVM."""
    return catalyst_of(jvm_of(session))


def catalyst_of(jvm: Any) -> Catalyst:
    """Return the classes of this JVM."""
    if jvm not in _known:
        _known[jvm] = Catalyst(jvm)
    return _known[jvm]


def attempted(column: Column, session: SparkSession) -> Column:
    """Return the column with null in place of any exception."""
    classes = catalyst(session)
    return classes.column(classes.attempt(classes.expression(column)))


class ResultSets:
    """Turns JDBC result sets into Arrow by Spark's own classes, for one URL; the classes are looked up once."""

    def __init__(self, session: SparkSession, url: str) -> None:
        jvm = jvm_of(session)
        sql = jvm.org.apache.spark.sql
        jdbc = sql.execution.datasources.jdbc
        self.session = session
        self._url = url
        self._types: dict[str, Any] = {}
        self._dialect = scala_object(sql.jdbc, "JdbcDialects").get(url)
        self._utils = scala_object(jdbc, "JdbcUtils")
        self._options = jdbc.JDBCOptions
        self._to_scala = jvm.PythonUtils.toScalaMap
        self._converters = scala_object(sql.execution.arrow, "ArrowConverters")
        self._metrics = jvm.org.apache.spark.executor.InputMetrics()
        self._nothing = scala_object(jvm.scala, "None")
        self._file_stream = jvm.java.io.FileOutputStream
        self._data_stream = jvm.java.io.DataOutputStream
        self._write = jvm.org.apache.spark.api.python.PythonRDD.writeIteratorToStream

    def connect(self, options: Mapping[str, str]) -> Any:
        """Open a connection as Spark opens its own."""
        made = self._options(self._to_scala({"url": self._url, "dbtable": "unused", **options}))
        return self._dialect.createConnectionFactory(made).apply(-1)

    def rows(self, results: Any, shape: str, of: StructType) -> Any:
        """Return a result set's rows in Spark's internal form; `shape` names their type."""
        if shape not in self._types:
            self._types[shape] = java_type(self.session, of)
        known = self._types[shape]
        return self._utils.resultSetToSparkInternalRows(results, self._dialect, known, self._metrics, self._nothing)

    def arrow(self, rows: Any, shape: str, at_once: int) -> Any:
        """Return the rows as an iterator of Arrow streams of one batch each."""
        types = self._types[shape]
        return self._converters.toBatchWithSchemaIterator(rows, types, at_once, 1 << 40, "UTC", False, False)

    def through_file(self, batches: Any, path: str) -> bytes:
        """Write the next of the streams to the file at `path`, and return its bytes."""
        stream = self._data_stream(self._file_stream(path))
        try:
            self._write(batches.take(1), stream)
        finally:
            stream.close()
        with open(path, "rb") as written:
            return written.read()[4:]  # after the length


def new_class_loader(context: Any, jars: Sequence[Path]) -> Any:
    """Return a class loader of these jars, below the one of the driver's own classes."""
    jvm = context._jvm
    urls = context._gateway.new_array(jvm.java.net.URL, len(jars))
    for at, jar in enumerate(jars):
        urls[at] = jvm.java.io.File(str(jar)).toURI().toURL()
    return jvm.java.net.URLClassLoader(urls, jvm.java.lang.Thread.currentThread().getContextClassLoader())


def new_in_java(context: Any, loader: Any, name: str, method: str, *kinds: str) -> Callable[..., Any]:
    """Return a method, with parameters of these classes, of a new object of a class loader's class.

    py4j keeps methods by the names of classes, and takes them for one if two loaders have them: this does not.
    """
    array, jvm = context._gateway.new_array, context._jvm
    of, nothing = loader.loadClass(name), array(jvm.java.lang.Class, 0)
    made = of.getDeclaredConstructor(nothing).newInstance(array(jvm.java.lang.Object, 0))
    classes = array(jvm.java.lang.Class, len(kinds))
    for at, kind in enumerate(kinds):
        classes[at] = loader.loadClass(kind)
    found = of.getMethod(method, classes)

    def call(*given: Any) -> Any:
        values = array(jvm.java.lang.Object, len(given))
        for at, value in enumerate(given):
            values[at] = value
        return found.invoke(made, values)

    return call
