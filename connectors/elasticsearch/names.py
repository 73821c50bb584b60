"""Names of indices and data streams by topics."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.elasticsearch.options import Flavour, SinkOptions

_LONGEST: Final = 255
_TOPIC: Final = "${topic}"


def index_name(options: SinkOptions, topic: Column) -> Column:
    """The name of what a topic's documents go into; null for a topic that has none."""
    if not options.creates:
        return _mapped(options, topic, F.lit(None).cast("string"))
    if options.stream is None:
        return _mapped(options, topic, _named(options.flavour, topic))
    before, *others = options.stream.format.split(_TOPIC)
    parts = [part for other in others for part in (topic, F.lit(other))]
    return _named(options.flavour, F.concat(F.lit(before), *parts))


def unmapped(topic: Column) -> Column:
    """The reason for refusing a topic without a name."""
    return F.concat(F.lit("No existing resource is named for the topic "), topic)


def _mapped(options: SinkOptions, topic: Column, otherwise: Column) -> Column:
    if not options.resources:
        return otherwise
    cases = F.when(F.lit(False), F.lit(""))
    for one, name in options.resources.items():
        cases = cases.when(topic == one, F.lit(name))
    return cases.otherwise(otherwise)


def _named(flavour: Flavour, name: Column) -> Column:
    lower = F.lower(name)
    if flavour is not Flavour.AIVEN_OPENSEARCH:
        return lower
    cut = F.translate(F.substr(lower, F.lit(1), F.lit(_LONGEST)), ":", "_")
    begun = F.regexp_replace(cut, "^[-_+]", "")
    return F.when(begun == ".", F.lit("dot")).when(begun == "..", F.lit("dotdot")).otherwise(begun)
