"""Formats, values and libraries of others: what the worker and the shipped plugins share.

`discovery` finds plugins, `conversion/` applies converters to batches, `formats/` writes and reads the contents of
files, `java_hosts` is where a worker and its Java hosts meet.
"""
