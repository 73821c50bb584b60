"""Puts a worker together in either mode, runs it until a signal ends it, and takes it apart.

Begin at `process.py`; `standalone.py` and `distributed.py` show the parts of each mode.
"""
