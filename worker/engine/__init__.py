"""Spark: its driver, expressions compiled for small batches, and who may use how much of it. Begin at `driver.py`,
then `inline.py`.
"""
