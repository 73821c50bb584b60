"""DefaultPartitioner: a directory for each Kafka partition."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.hdfs.partitioners.partitioner import Partitioner
from headrace.plugins.records import Records


class DefaultPartitioner(Partitioner):
    """`partition=3`."""

    fields: Sequence[str] = ("partition",)

    def column(self, records: Records) -> Column:
        """`partition=` and the record's partition."""
        return F.concat(F.lit("partition="), F.col("partition").cast("string"))
