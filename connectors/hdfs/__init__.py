"""Topics into partitioned files and back: HDFS, object stores and local disks.

| room | holds | begin at |
|---|---|---|
| `stores/` | one small contract over HDFS, S3 and the local disk | `store.py` |
| `partitioners/` | the choice of a record's directory | `partitioner.py` |
| `hive/` | tables in Hive's metastore over the files | `tables.py` |
| `sink/` | the sinks under Confluent's names | `connector.py` |
| `source/` | files under a path, each once | `connector.py` |
| here | the settings that they share | `settings.py` |

The contents of files are written and read by `plugins/interop/formats/`.

Floors, from the lowest: settings and errors; `stores/`; `partitioners/`; `hive/` and `source/`;
`sink/`.
"""
