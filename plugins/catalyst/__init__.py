"""Spark's own expressions and processes, used where its public API does not reach: internals of classic Spark.

Begin with `let`, which names a value inside an expression, and `java_calls`, which calls the JVM's own methods.
"""
