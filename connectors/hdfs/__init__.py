"""Topics into partitioned files and back: HDFS, object stores and local disks.

| room | holds | begin at |
|---|---|---|
| `stores/` | one small contract over HDFS, S3 and the local disk | `store.py` |
| `formats/` | Avro, Parquet, JSON, text and bytes, written and read | `format.py` |
| `partitioners/` | the choice of a record's directory | `partitioner.py` |
| `hive/` | tables in Hive's metastore over the files | `tables.py` |
| `sink/` | the sinks under Confluent's names | `connector.py` |
| `source/` | files under a path, each once | `connector.py` |
| here | the settings that they share | `settings.py` |

Floors, from the lowest: settings and errors; `stores/`; `partitioners/` and `formats/`; `hive/` and `source/`;
`sink/`.
"""
