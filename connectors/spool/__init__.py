"""Spool folders: files of CSV, JSON, lines, bytes, Avro and Parquet into topics, under the original connector's names.

    listing (files there) -> task (what is read next) -> reader (rows with offsets) -> cleanup (files put away)

| module | holds |
|---|---|
| `connector.py` | the connectors, one for each format |
| `settings.py`, `content_settings.py`, `options.py` | the settings, and what they mean together |
| `task.py` | the task: plans, offsets, when a file is put away |
| `listing.py`, `offsets.py`, `cleanup.py` | the files there, places in them, what becomes of them |
| `reader.py` | the rows of a file up to a bad place |
| `text_stream.py`, `text_records.py` | a file's text, and where its records end |
| `csv_rows.py`, `json_rows.py`, `line_rows.py` | records to values |
| `cells.py`, `date_patterns.py` | texts to values of a type |
| `schemas.py`, `generation.py` | schemas as they are written in configs, or made of the first files |
"""
