"""Tables in Hive's metastore over the files of topics.

| module | holds |
|---|---|
| `definition.py` | the table of a topic, and its changes |
| `metastore.py` | a connection to the metastore |
| `tables.py` | directories as partitions; the tables of a task, kept up to date beside its commits |

Begin with `tables`.
"""
