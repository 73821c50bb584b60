"""The JDBC source: tables into topics.

Begin with `connector`, which finds the tables, and `task`, which reads them; `planning` decides what is read next.
"""
