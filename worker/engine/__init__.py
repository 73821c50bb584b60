"""Spark: its driver, expressions compiled for small batches, and bounds on their use.

Begin at `driver.py`, then `inline.py`.
"""
