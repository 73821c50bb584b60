"""The contract of partitioners; a package brings its own by the entry point group `headrace.partitioner`.

    [project.entry-points."headrace.partitioner"]
    "org.example.MyPartitioner" = "my_package:MyPartitioner"

`partitioner.class` names the entry. A class is only ever looked up among these, never imported because a configuration
names it.

    class ByRegion(Partitioner):
        fields = ("region",)

        def column(self, records):
            return F.concat(F.lit("region="), region_of(F.col("topic")))
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.hdfs.partition_settings import PARTITIONER, PARTITIONERS
from headrace.plugins.records import Records

GROUP: Final = "headrace.partitioner"


class Partitioner(ABC):
    """Chooses the directory of a record within its topic; picklable. Columns are made while Spark runs."""

    is_deterministic: bool = True
    """True if a record goes to the same directory whenever it is written: exactly once in S3 needs that."""
    fields: Sequence[str] = ()
    """The columns of partitions in Hive, outermost first."""

    def configure(self, config: Mapping[str, str]) -> None:  # noqa: B027
        """Get ready; called once, first, with the connector's config. Errors: ConfigError."""

    @abstractmethod
    def column(self, records: Records) -> Column:
        """Return the directory of each row: its path as a string, or a number that `paths` reads.

        Parts of paths have to be escaped already (`headrace.connectors.hdfs.partitioners.by_field.escaped`). Null if
        `error` tells why there is none.
        """

    def error(self, records: Records) -> Column:
        """Return the reason why a row has no directory, as a string; null for rows that have one."""
        return F.lit(None).cast("string")

    def paths(self, distinct: pa.Array) -> pa.Array:
        """Return the paths of the distinct values of `column`; called outside of Spark."""
        return distinct

    def time(self, records: Records) -> Column | None:
        """Return the time of each row, in ms, that `rotate.interval.ms` counts by; None: the clock counts."""
        return None


@cache
def partitioners() -> Mapping[str, type[Partitioner]]:
    """The installed partitioners: ours, and those of other packages, by the names of their entry points."""
    return {entry.name: entry.load() for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


def partitioner_of(config: Mapping[str, str]) -> Partitioner:
    """The config's partitioner, by its class name, simple name or short name, configured.

    Errors: ConfigError that names the choices.
    """
    name = config.get(PARTITIONER, "").strip() or PARTITIONERS[0]
    named = {cls for full, cls in partitioners().items() if name in _names(full)}
    if len(named) != 1:
        what = f"{len(named)} partitioners have this name" if named else "No partitioner has this name"
        known = ", ".join(dict.fromkeys(full.rpartition(".")[2] for full in partitioners()))
        remedy = f"Use one of {known}; a package brings its own in the entry point group {GROUP}."
        raise ConfigError(Problem(PARTITIONER, name, f"{what}.", remedy))
    partitioner = named.pop()()
    partitioner.configure(config)
    return partitioner


def _names(full: str) -> set[str]:
    simple = full.rpartition(".")[2]
    return {full, simple, simple.removesuffix("Partitioner")}
