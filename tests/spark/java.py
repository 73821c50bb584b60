"""A few lines of Java in the test session's JVM, where asking it value by value through py4j would take minutes."""

from __future__ import annotations

from functools import cache
from typing import Any

from pyspark.sql import SparkSession


@cache  # py4j knows classes by their names: of each name there must be one
def java_object(spark: SparkSession, class_name: str, source: str) -> Any:
    """An object of a class without package and generics; lists of Python's are `java.util.List` to its methods."""
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(source)
    made = compiler.getClassLoader().loadClass(class_name)
    nothing = gateway.new_array(jvm.java.lang.Class, 0), gateway.new_array(jvm.java.lang.Object, 0)
    return made.getDeclaredConstructor(nothing[0]).newInstance(nothing[1])
