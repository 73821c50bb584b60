"""DefaultPartitioner: a directory for each Kafka partition."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.hdfs.partitioners.partitioner import Partitioner
from headrace.plugins.records import Records


class DefaultPartitioner(Partitioner):
    """The directory `partition=3`."""

    fields: Sequence[str] = ("partition",)

    def column(self, records: Records) -> Column:
        """The record's partition."""
        return F.col("partition")

    def paths(self, distinct: pa.Array) -> pa.Array:
        """`partition=` and the number."""
        return pc.binary_join_element_wise("partition=", distinct.cast(pa.string()), "")
