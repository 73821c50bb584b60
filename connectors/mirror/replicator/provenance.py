"""The origin of records, in a header: cluster id and topic, as `hR6…/orders`.

A record has such a header for each flow that it went through. One that comes from the cluster and topic into which a
flow would copy it is left out, so that flows in both directions, or in a ring, may keep names.

Decided: a header of our own, because that of Confluent's is not published; loses: a flow of ours and one of theirs in
the two directions do not see each other's records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.mirror.replicator.policy import RenamePolicy
from headrace.plugins.records import HEADERS, Records

HEADER: Final = "headrace.provenance"


@dataclass(frozen=True)
class Provenance:
    """Marks the records of a flow between clusters with these ids."""

    source: str
    target: str
    policy: RenamePolicy

    def marked(self, records: Records) -> Records:
        """Return the records with the header, and without those that come back."""
        target = F.col("topic")
        before, after = len(self.policy.prefix), len(self.policy.suffix)
        topic = target.substr(F.lit(before + 1), F.length(target) - before - after)
        headers = F.coalesce(F.col("headers"), F.array().cast(HEADERS))
        home = _origin(self.target, target)
        comes_back = F.exists(headers, lambda one: (one["key"] == HEADER) & (one["value"] == home))
        own = F.struct(F.lit(HEADER).alias("key"), _origin(self.source, topic).alias("value"))
        marked = F.concat(headers, F.array(own).cast(HEADERS))
        return records.changed({"headers": marked}, drop=F.coalesce(comes_back, F.lit(False)))


def _origin(cluster: str, topic: Column) -> Column:
    return F.concat(F.lit(f"{cluster}/"), topic).cast("binary")
