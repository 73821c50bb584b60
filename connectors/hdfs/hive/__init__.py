"""Tables in Hive's metastore over the files of topics.

| module | holds |
|---|---|
| `definition.py` | the table of a topic, and its changes |
| `partition_names.py` | directories as partitions |
| `metastore.py` | a connection to the metastore |
| `tables.py` | the tables of a task, kept up to date beside its commits |

Begin with `tables`.
"""
