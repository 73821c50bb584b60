"""Decides on requests of REST and of the group, in both modes.

Begin at `api.py`, then `standalone.py` or `distributed.py`.
"""
