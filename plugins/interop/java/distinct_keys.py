"""Entries with distinct keys, as in a Java map; a Column expression."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.plugins.interop.catalyst.let import let


def distinct_keys(entries: Column, key: str = "key") -> Column:
    """Keep each key once: in the place of its first entry, with the value of its last.

    Sorts only if a key occurs twice, because a hostile record may have a hundred thousand of them.
    """

    def checked(entries: Column) -> Column:
        keys = F.transform(entries, lambda one: one[key])
        placed = F.transform(
            entries, lambda one, place: F.struct(one[key].alias("key"), place.alias("place"), one.alias("entry"))
        )
        return F.when(F.size(F.array_distinct(keys)) == F.size(keys), entries).otherwise(
            let(F.array_sort(placed, _by_key_and_place), _ends_of_runs)
        )

    return let(entries, checked)


def _by_key_and_place(one: Column, other: Column) -> Column:
    return F.when(one["key"] < other["key"], -1).when(one["key"] > other["key"], 1).otherwise(_by_place(one, other))


def _by_place(one: Column, other: Column) -> Column:
    return one["place"] - other["place"]


def _ends_of_runs(placed: Column) -> Column:
    def is_last(one: Column, at: Column) -> Column:
        return ~F.coalesce(F.get(placed, at + 1)["key"] == one["key"], F.lit(False))

    def is_first(one: Column, at: Column) -> Column:
        return ~F.coalesce(F.get(placed, at - 1)["key"] == one["key"], F.lit(False))

    lasts, firsts = F.filter(placed, is_last), F.filter(placed, is_first)
    runs = F.zip_with(firsts, lasts, lambda first, last: F.struct(first["place"], last["entry"]))
    return F.transform(F.array_sort(runs, _by_place), lambda run: run["entry"])
