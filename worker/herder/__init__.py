"""Decides what REST and the group ask for, in both modes.

Begin at `api.py`, then `standalone.py` or `distributed.py`.
"""
