"""Reads and writes the contents of files: Parquet, Avro, JSON, text and bytes. Begin with `format.py`.

`compatibility.py` decides a file's schema when records change theirs, `projection.py` brings values to it.
"""
