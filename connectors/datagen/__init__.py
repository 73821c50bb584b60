"""Datagen: records by a schema with annotations, for trials and load; begin at `connector.py`.

| module | holds |
|---|---|
| `schemas.py` | the schema of a config: of a quickstart, a text or a file |
| `building.py`, `arguments.py`, `options.py` | generators of an Avro schema's types, by their annotations |
| `values.py`, `patterns.py` | the generators, each of a whole column; texts by regular expressions |
| `blocks.py` | rows by their numbers |
| `quickstarts/` | ready schemas |
"""
