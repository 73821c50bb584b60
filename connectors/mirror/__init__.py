"""Replication between Kafka clusters, as MirrorMaker 2: topics, offsets of consumer groups, heartbeats.

| room | holds | begin at |
|---|---|---|
| `source/` | MirrorSourceConnector: topics, their copies' settings, the task that copies | `task.py`, `connector.py` |
| `copy/` | whole record batches from one cluster to another | `link.py` |
| `checkpoint/` | MirrorCheckpointConnector: offsets of consumer groups, translated | `task.py` |
| `replicator/` | Confluent Replicator's configs over `source/` | `translation.py` |
| `verify/` | `headrace mirror verify` | `verification.py` |
| here | heartbeats, and shared parts: settings, clients, policies, filters, formats, duties, metrics | `policy.py` |
"""
