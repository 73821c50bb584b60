"""The files of tables: rows conformed to their columns, partitioned, deduplicated by key, as Parquet.

Begin with `files` (what a task holds), `targets` (what it asks its task) and `writer` (what a batch gets).
"""
