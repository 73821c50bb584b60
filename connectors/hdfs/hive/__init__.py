"""Tables in Hive's metastore over the files of topics.

| module | holds |
|---|---|
| `definition.py` | what a topic's table has to be, and how an existing one changes |
| `partition_names.py` | directories as partitions |
| `metastore.py` | a connection to the metastore |
| `tables.py` | the tables of a task, kept up to date beside its commits |

Begin with `tables`.
"""
