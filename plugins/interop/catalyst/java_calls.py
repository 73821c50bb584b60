"""Calls of Java's own and Jackson's classes from columns: Spark compiles the calls into the rest of its code.

Decided: Spark's internal `Invoke`, because no SQL function looks at each character of a text for less than a regular
expression, and those took half of a JSON line's time in the JVM (measured: 575 ns for a text of 85 characters, 200 ns
with `Invoke`), and because what Java itself computes is exact (`headrace.plugins.interop.java.dates`, `regex`);
loses: they are internals of classic Spark.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from headrace.plugins.interop.catalyst.spark_internals import active_context, catalyst_of, jvm_of, thrown_in_java

_UTF8: Final = "com.google.common.base.Utf8"
_ARRAYS: Final = "org.apache.commons.lang3.ArrayUtils"
_JACKSON: Final = "com.fasterxml.jackson."
_ENCODER: Final = f"{_JACKSON}core.io.JsonStringEncoder"
_MAPPER: Final = f"{_JACKSON}databind.ObjectMapper"


class JavaCalls:
    """Makes expressions that call Java, for one JVM; Java types are named as in Java, classes by their full names.

    Every thread and task that runs an expression has its own copy of the objects in it, which must be serializable.
    Equal expressions are evaluated once for a row, so no two calls may change the same new object. A call on null, or
    with a null argument, returns null.
    """

    def __init__(self, jvm: Any) -> None:
        self._spark = catalyst_of(jvm)
        # An encoder cannot be sent to where a plan runs; a mapper can.
        self.encoder = self.static(_ENCODER, "getInstance", self.type(_ENCODER))
        self.mapper = self.constant(jvm.com.fasterxml.jackson.databind.ObjectMapper(), _MAPPER)
        self._jvm = jvm

    @cached_property
    def mapper_without_nulls(self) -> Any:
        """Jackson's mapper that writes no null members."""
        jackson = self._jvm.com.fasterxml.jackson
        include = jackson.annotation.JsonInclude
        every, some = include.Include.ALWAYS, include.Include.NON_NULL
        made = jackson.databind.ObjectMapper()
        made.setDefaultPropertyInclusion(include.Value.construct(every, some))
        return self.constant(made, _MAPPER)

    @cached_property
    def any_class(self) -> Any:
        """The class `java.lang.Object`."""
        return self.constant(self._jvm.java.lang.Class.forName("java.lang.Object"), "java.lang.Class")

    def type(self, name: str) -> Any:
        """Return Spark's name for a Java type."""
        return self._spark.type(name)

    def value(self, column: Column) -> Any:
        """Return a column's number, boolean, decimal or bytes as an expression."""
        return self._spark.expression(column)

    def string(self, text: Column) -> Any:
        """Return a column's text as a Java String."""
        return self.call(self.value(text), "toString", "java.lang.String")

    def constant(self, made: Any, class_name: str) -> Any:
        """Return a constant: an object of the driver."""
        return self._spark.constant(made, self.type(class_name))

    def own(self, made: Any) -> Any:
        """Return a constant of a class of Headrace's own, which need not be on the driver's first class path."""
        return self._spark.constant(made, self._spark.type_of_object(made))

    def new(self, class_name: str, *arguments: Any) -> Any:
        """Return a new object for each row."""
        return self._spark.new(class_name, arguments)

    def call(self, on: Any, method: str, returns: str, *arguments: Any) -> Any:
        """Call a method on each row."""
        return self._spark.call(on, method, self.type(returns), arguments)

    def typed_call(self, on: Any, method: str, returns: DataType, *arguments: Any) -> Any:
        """Call a method on each row that returns Spark's own form of this type."""
        return self._spark.call(on, method, self._spark.java_type(returns), arguments)

    def attempt(self, expression: Any) -> Any:
        """Return the expression with null in place of an exception."""
        return self._spark.attempt(expression)

    def static(self, class_name: str, method: str, returns: Any, *arguments: Any) -> Any:
        """Call a static method on each row; `returns` is a Spark type."""
        return self._spark.static(class_name, method, returns, arguments)

    def column(self, expression: Any) -> Column:
        """Return the column of a number, a boolean or bytes."""
        return self._spark.column(expression)

    def text(self, string: Any) -> Column:
        """Return the column of Java Strings."""
        return self.column(self._spark.spark_string(string))

    def as_hive_directory(self, string: Any) -> Column:
        """Return the column of Java Strings, escaped as Hive does in names of directories."""
        return self.text(self._spark.as_hive_directory(string))


_known: WeakKeyDictionary[Any, JavaCalls] = WeakKeyDictionary()


def java_calls() -> JavaCalls:
    """Return the `JavaCalls` of the running JVM."""
    jvm = jvm_of(active_context())
    if jvm not in _known:
        _known[jvm] = JavaCalls(jvm)
    return _known[jvm]


def java_message(error: BaseException) -> str:
    """Return the message of the Java exception in one of `JAVA_ERRORS`."""
    thrown = thrown_in_java(error)
    return str(error if thrown is None else thrown.getMessage())


def utf16_length(text: Column) -> Column:
    """Return the number of UTF-16 units of a text; exceeds the number of characters by one for each surrogate pair."""
    java = java_calls()
    return java.column(java.call(java.string(text), "length", "int"))


def is_utf8(data: Column) -> Column:
    """True for valid UTF-8, in bytes or in a string: `F.is_valid_utf8` in less than half of its time."""
    java = java_calls()
    return java.column(java.static(_UTF8, "isWellFormed", java.type("boolean"), java.value(data.cast("binary"))))


def place_of_byte(data: Column, byte: bytes, start: int = 0) -> Column:
    """Return the index of the first occurrence of an ASCII character in bytes, from `start` on; -1 if there is none.

    Decided: loops over arrays, of libraries that Spark brings, because `F.contains` and `F.is_valid_utf8` take more
    than a nanosecond for each byte, which was a third of the JVM's time in a job that reads strings (a topic to a file
    cost 16 % less with loops); loses: Spark does not promise these libraries.
    """
    java = java_calls()
    given = java.value(data), java.value(F.lit(byte[0]).cast("tinyint")), java.value(F.lit(start))
    return java.column(java.static(_ARRAYS, "indexOf", java.type("int"), *given))


def json_escaped(text: Column) -> Column:
    """Escape the text for JSON, as UTF-8 without quotes; characters beyond the basic plane stay as they are."""
    java = java_calls()
    return java.column(java.call(java.encoder, "quoteAsUTF8", "byte[]", java.string(text)))


def json_quoted(text: Column) -> Column:
    """Quote the text for JSON, as UTF-8; characters beyond the basic plane become two escapes."""
    java = java_calls()
    return java.column(java.call(java.mapper, "writeValueAsBytes", "byte[]", java.string(text)))


def compact_json(text: Column, *, nulls: bool) -> Column:
    """Return the JSON in a text without blanks, without null members unless `nulls`; null if the text is not JSON."""
    java = java_calls()
    mapper = java.mapper if nulls else java.mapper_without_nulls
    read = java.call(mapper, "readValue", "java.lang.Object", java.string(text), java.any_class)
    return java.text(java.attempt(java.call(mapper, "writeValueAsString", "java.lang.String", read)))


def bytes_of_decimal(decimal: Column) -> Column:
    """Return a decimal's unscaled value in the fewest bytes of big-endian two's complement."""
    java = java_calls()
    value = java.call(java.value(decimal), "toJavaBigDecimal", "java.math.BigDecimal")
    whole = java.call(value, "unscaledValue", "java.math.BigInteger")
    return java.column(java.call(whole, "toByteArray", "byte[]"))


def decimal_text(unscaled: Column, scale: Column) -> Column:
    """Return all digits of a decimal from its unscaled value, as of `bytes_of_decimal`; the scale has to be small."""
    java = java_calls()
    whole = java.new("java.math.BigInteger", java.value(unscaled))
    value = java.new("java.math.BigDecimal", whole, java.value(scale))
    return java.text(java.call(value, "toPlainString", "java.lang.String"))


def gunzipped(data: Column, most_bytes: int) -> Column:
    """Return at most this many of the bytes that gzip compressed; null if the data is not gzip's."""
    java = java_calls()
    given = java.new("java.io.ByteArrayInputStream", java.value(data))
    stream = java.new("java.util.zip.GZIPInputStream", given)
    return java.column(java.attempt(java.call(stream, "readNBytes", "byte[]", java.value(F.lit(most_bytes)))))
