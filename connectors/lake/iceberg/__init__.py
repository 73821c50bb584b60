"""Iceberg: the catalog of tables, `sink`, `files` (what it writes) and `source`.

Begin with `schemas`, `tables` and `parts`: what the rooms hand to each other.
"""
