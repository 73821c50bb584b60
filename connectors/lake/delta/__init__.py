"""Delta: a sink, through the library `deltalake` (delta-rs).

Decided: `deltalake` in place of Delta's package for Spark, because a commit of ten rows takes 5 ms of one core in place
of 6 s, and merging 100,000 rows into 1,000,000 takes 0.5 s in place of 12 s (2 cores, local disk), and because Spark's
needs its extension, catalog and jars when the driver starts; loses: what delta-rs cannot write, such as tables with
column mapping or deletion vectors, and a cluster's cores for a commit.

Begin with `task`; `tables` has the commit and its fence.
"""
