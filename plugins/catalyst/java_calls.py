"""Methods of Java's own classes and of Jackson's as columns: Spark compiles the calls into the rest of its code.

Decided: Spark's internal `Invoke`, because nothing that SQL has looks at each character of a text for less than its
regular expressions, and those took half of a JSON line's time in the JVM (measured: 575 ns for a text of 85 characters,
200 ns so); loses: they are internals of classic Spark.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.sql import Column

from headrace.plugins.catalyst.internals import catalyst_of, scala_object

_JACKSON = "com.fasterxml.jackson."


class _Calls:
    """What the calls are made of, in one JVM."""

    def __init__(self, jvm: Any) -> None:
        self._spark, types, of_name = catalyst_of(jvm), jvm.org.apache.spark.sql.types, jvm.java.lang.Class.forName
        expressions, nothing = jvm.org.apache.spark.sql.catalyst.expressions, self._spark.nothing
        self._invoke = expressions.objects.Invoke
        self._integer, self._binary = scala_object(types, "IntegerType"), scala_object(types, "BinaryType")
        self._string, self._big_decimal, self._big_integer = (
            types.ObjectType(of_name(f"java.{name}")) for name in ("lang.String", "math.BigDecimal", "math.BigInteger")
        )
        encoder, mapper = of_name(f"{_JACKSON}core.io.JsonStringEncoder"), of_name(f"{_JACKSON}databind.ObjectMapper")
        # An encoder cannot be sent to where a plan runs, a mapper can.
        self._encoder = expressions.objects.StaticInvoke(
            encoder, types.ObjectType(encoder), "getInstance", nothing, nothing, True, False, True, self._spark.none
        )
        self._mapper = expressions.Literal(jvm.com.fasterxml.jackson.databind.ObjectMapper(), types.ObjectType(mapper))

    def length(self, text: Column) -> Column:
        return self._column(self._call(self._java_string(text), "length", self._integer))

    def escaped(self, text: Column) -> Column:
        return self._column(self._call(self._encoder, "quoteAsUTF8", self._binary, self._java_string(text)))

    def json(self, text: Column) -> Column:
        return self._column(self._call(self._mapper, "writeValueAsBytes", self._binary, self._java_string(text)))

    def unscaled(self, decimal: Column) -> Column:
        value = self._call(self._spark.to_expression(decimal._jc), "toJavaBigDecimal", self._big_decimal)
        whole = self._call(value, "unscaledValue", self._big_integer)
        return self._column(self._call(whole, "toByteArray", self._binary))

    def _java_string(self, text: Column) -> Any:
        return self._call(self._spark.to_expression(text._jc), "toString", self._string)

    def _call(self, on: Any, method: str, result: Any, *arguments: Any) -> Any:
        return self._invoke(on, method, result, self._spark.seq(arguments), self._spark.nothing, True, True, True)

    def _column(self, expression: Any) -> Column:
        return Column(self._spark.to_column(expression))


_known: WeakKeyDictionary[Any, _Calls] = WeakKeyDictionary()


def _calls() -> _Calls:
    context = SparkContext._active_spark_context
    assert context is not None, "columns are made while Spark runs"
    jvm = context._jvm
    if jvm not in _known:
        _known[jvm] = _Calls(jvm)
    return _known[jvm]


def utf16_length(text: Column) -> Column:
    """How many UTF-16 units a text has; units beyond the number of its characters are of pairs."""
    return _calls().length(text)


def json_escaped(text: Column) -> Column:
    """The text as UTF-8 with JSON's escapes, without quotes; what is beyond the basic plane stands as it is."""
    return _calls().escaped(text)


def json_quoted(text: Column) -> Column:
    """The text as UTF-8 with JSON's escapes, in quotes; what is beyond the basic plane as two escapes."""
    return _calls().json(text)


def bytes_of_decimal(decimal: Column) -> Column:
    """A decimal's unscaled value in the fewest bytes of big-endian two's complement."""
    return _calls().unscaled(decimal)
