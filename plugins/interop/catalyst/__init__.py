"""Spark's internal expressions and processes, used if its public API does not suffice: internals of classic Spark.

Begin with `let`, which names a value inside an expression, and `java_calls`, which calls the JVM's own methods.
"""
