"""Copies Kafka's record batches from one cluster to another unchanged; begin at `link.py`.

A batch is fetched, its header stamped anew and produced: no record in it is decoded, compression stays. `batches.py`
knows the format, `fetching.py` the source cluster's side, `producing.py` the target's, `link.py` moves ranges between.

Decided: kafka-python's network layer under Kafka's own Fetch and Produce requests, because 3,000,000 records of 170
bytes in 4 partitions took 1.2 s of CPU so (2.5 million records per CPU-second, on two cores beside both brokers; bound
by the brokers), while librdkafka handles single records at a fifth of that; loses: batches that cannot be copied whole
(one that compaction thinned out, one that begins before the position, tiny batches in a backlog, timestamps of the
source's broker) go record by record through the pipeline, as do records that a transform or converter changes.
"""
