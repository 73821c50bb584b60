"""Builds a worker in either mode, runs it until a signal ends it, and takes it apart.

Begin at `process.py`; `worker.py` is a worker within its process, `standalone.py` and `distributed.py` are those of
each mode; `mirror.py` runs several in one process.
"""
