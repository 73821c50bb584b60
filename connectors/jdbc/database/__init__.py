"""Connections to a database, from Python and from Spark's JVM, with their settings, errors and checks.

Begin with `connection`; `installed_dialects` finds the dialect of a URL.
"""
