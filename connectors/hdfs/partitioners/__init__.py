"""Partitioners: they choose the directory of a record within its topic.

| module | holds |
|---|---|
| `partitioner.py` | the contract, and the search for a config's partitioner |
| `by_partition.py`, `by_field.py`, `by_time.py` | Confluent's: Default; Field; TimeBased, Daily, Hourly |
| `extractors.py` | the time of a record: the clock, its timestamp, a field |
| `record_fields.py` | a field of values of several schemas, and of values without |
| `joda_pattern.py` | times printed by the letters of Joda |
| `topic_folders.py` | the directory of a topic, by the groups of its name |
"""
