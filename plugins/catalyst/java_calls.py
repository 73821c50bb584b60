"""Java's own classes, and Jackson's, called from columns: Spark compiles the calls into the rest of its code.

Decided: Spark's internal `Invoke`, because no SQL function looks at each character of a text for less than a regular
expression, and those took half of a JSON line's time in the JVM (measured: 575 ns for a text of 85 characters, 200 ns
so), and because what Java itself computes is exact (`headrace.plugins.java.dates`, `regex`); loses: they are internals
of classic Spark.
"""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.catalyst.spark_internals import active_context, catalyst_of, jvm_of, thrown_in_java

_UTF8: Final = "com.google.common.base.Utf8"
_ARRAYS: Final = "org.apache.commons.lang3.ArrayUtils"
_JACKSON: Final = "com.fasterxml.jackson."
_ENCODER: Final = f"{_JACKSON}core.io.JsonStringEncoder"
_MAPPER: Final = f"{_JACKSON}databind.ObjectMapper"


class JavaCalls:
    """Makes expressions that call Java, for one JVM; a Java type is named as in Java, a class by its full name.

    Every thread and every task that runs an expression has its own copy of the objects in it, which have to be
    serializable. Equal expressions are evaluated once for a row, so no two calls may change the same new object. A call
    on null, or with one, gives null.
    """

    def __init__(self, jvm: Any) -> None:
        self._spark = catalyst_of(jvm)
        # An encoder cannot be sent to where a plan runs, a mapper can.
        self.encoder = self.static(_ENCODER, "getInstance", self.type(_ENCODER))
        self.mapper = self.constant(jvm.com.fasterxml.jackson.databind.ObjectMapper(), _MAPPER)

    def type(self, name: str) -> Any:
        """Spark's name for a type of Java's."""
        return self._spark.type(name)

    def value(self, column: Column) -> Any:
        """A column's number, boolean, decimal or bytes."""
        return self._spark.expression(column)

    def string(self, text: Column) -> Any:
        """A column's text as Java's String."""
        return self.call(self.value(text), "toString", "java.lang.String")

    def constant(self, made: Any, class_name: str) -> Any:
        """An object of the driver's."""
        return self._spark.constant(made, self.type(class_name))

    def new(self, class_name: str, *arguments: Any) -> Any:
        """A new object for each row."""
        return self._spark.new(class_name, arguments)

    def call(self, on: Any, method: str, returns: str, *arguments: Any) -> Any:
        """The result of a method."""
        return self._spark.call(on, method, self.type(returns), arguments)

    def attempt(self, expression: Any) -> Any:
        """The same; null where it raises."""
        return self._spark.attempt(expression)

    def static(self, class_name: str, method: str, returns: Any, *arguments: Any) -> Any:
        """The result of a static method; `returns` is a type of Spark's."""
        return self._spark.static(class_name, method, returns, arguments)

    def column(self, expression: Any) -> Column:
        """The column of a number, a boolean or bytes."""
        return self._spark.column(expression)

    def text(self, string: Any) -> Column:
        """The column of Java's Strings."""
        return self.column(self._spark.spark_string(string))

    def as_hive_directory(self, string: Any) -> Column:
        """The column of Java's Strings, escaped as Hive escapes them in the name of a directory."""
        return self.text(self._spark.as_hive_directory(string))


_known: WeakKeyDictionary[Any, JavaCalls] = WeakKeyDictionary()


def java_calls() -> JavaCalls:
    """The calls of the JVM that runs."""
    jvm = jvm_of(active_context())
    if jvm not in _known:
        _known[jvm] = JavaCalls(jvm)
    return _known[jvm]


def java_message(error: BaseException) -> str:
    """The message of Java's exception in one of `JAVA_ERRORS`."""
    thrown = thrown_in_java(error)
    return str(error if thrown is None else thrown.getMessage())


def utf16_length(text: Column) -> Column:
    """How many UTF-16 units a text has; units beyond the number of its characters are of pairs."""
    java = java_calls()
    return java.column(java.call(java.string(text), "length", "int"))


def is_utf8(data: Column) -> Column:
    """Whether bytes, or those of a string, are valid UTF-8: `F.is_valid_utf8` in less than half of its time."""
    java = java_calls()
    return java.column(java.static(_UTF8, "isWellFormed", java.type("boolean"), java.value(data.cast("binary"))))


def place_of_byte(data: Column, byte: bytes, start: int = 0) -> Column:
    """Where an ASCII character stands first in bytes, from `start` on; -1 where it does not.

    Decided: loops over arrays, of libraries that Spark brings, because `F.contains` and `F.is_valid_utf8` take more
    than a nanosecond for each byte, which was a third of the JVM's time in a job that reads strings (a topic to a file
    cost 16 % less so); loses: Spark does not promise these libraries.
    """
    java = java_calls()
    given = java.value(data), java.value(F.lit(byte[0]).cast("tinyint")), java.value(F.lit(start))
    return java.column(java.static(_ARRAYS, "indexOf", java.type("int"), *given))


def json_escaped(text: Column) -> Column:
    """The text as UTF-8 with JSON's escapes, without quotes; what is beyond the basic plane stands as it is."""
    java = java_calls()
    return java.column(java.call(java.encoder, "quoteAsUTF8", "byte[]", java.string(text)))


def json_quoted(text: Column) -> Column:
    """The text as UTF-8 with JSON's escapes, in quotes; what is beyond the basic plane as two escapes."""
    java = java_calls()
    return java.column(java.call(java.mapper, "writeValueAsBytes", "byte[]", java.string(text)))


def bytes_of_decimal(decimal: Column) -> Column:
    """A decimal's unscaled value in the fewest bytes of big-endian two's complement."""
    java = java_calls()
    value = java.call(java.value(decimal), "toJavaBigDecimal", "java.math.BigDecimal")
    whole = java.call(value, "unscaledValue", "java.math.BigInteger")
    return java.column(java.call(whole, "toByteArray", "byte[]"))


def decimal_text(unscaled: Column, scale: Column) -> Column:
    """All digits of a decimal, whose unscaled value is given as by `bytes_of_decimal`; the scale has to be small."""
    java = java_calls()
    whole = java.new("java.math.BigInteger", java.value(unscaled))
    value = java.new("java.math.BigDecimal", whole, java.value(scale))
    return java.text(java.call(value, "toPlainString", "java.lang.String"))
