"""Advice about unknown names: the nearest known one, and a list of the known ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import SequenceMatcher, get_close_matches

from headrace.config.removed import CLASSES

_ALIKE = 0.75
"""The least likeness, of 1.0, to take a name for a misspelling of another."""
_MANY = 40
"""The most names that an error lists."""
_NEEDS_ENGINE = "runs scripts, from its jars with an engine on plugin.path. Without them, use"
_ICEBERG = ("org.apache.iceberg.connect.transforms.", "io.tabular.iceberg.connect.transforms.")
_FROM_ITS_JAR = "gives each record a schema of its own: it runs from its jar on plugin.path. Without it, use"
_INSTEAD = {
    "io.debezium.transforms.Filter": f" It {_NEEDS_ENGINE} headrace.transforms.Sql with WHERE, or "
    "io.confluent.connect.transforms.Filter$Value.",
    "io.debezium.transforms.ContentBasedRouter": f" It {_NEEDS_ENGINE} headrace.transforms.Sql with a column _topic.",
    **{
        f"{package}JsonToMapTransform": f" It {_FROM_ITS_JAR} JsonConverter with schemas.enable=false, or "
        "headrace.transforms.Sql with from_json."
        for package in _ICEBERG
    },
    **{
        f"{package}MongoDebeziumTransform": f" It {_FROM_ITS_JAR} headrace.transforms.Sql with from_json."
        for package in _ICEBERG
    },
}
"""Advice in place of names, for classes that are known and not here."""


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar name, whatever its case; None if none is similar."""
    by_lower = {one.lower(): one for one in names}
    found = get_close_matches(name.lower(), by_lower, 1, _ALIKE)
    return by_lower[found[0]] if found else None


def nearest_class(name: str, classes: Iterable[str]) -> str | None:
    """The full name of the class that once had this name, or has the most similar one; None if none is similar.

    Full and short names are compared, short ones with and without `Connector` at their end.
    """
    full = list(classes)
    if name in CLASSES:
        return CLASSES[name]
    if "." in name and (found := nearest(name, full)) is not None:
        return found
    by_short = {short_name(one): one for one in reversed(full)}
    by_short |= {short.removesuffix("Connector"): one for short, one in by_short.items()}
    found = nearest(short_name(name), by_short)
    return None if found is None else by_short[found]


def question(meant: str | None) -> str:
    """A sentence to follow a refusal, which asks for this name; empty for None."""
    return "" if meant is None else f" Did you mean {meant}?"


def short_name(class_name: str) -> str:
    """The class name without its package."""
    return class_name.rpartition(".")[2]


def class_advice(name: str, classes: Iterable[str]) -> str:
    """Two sentences to follow a refusal: the class that may be meant, and the short names of all classes.

    If there are many classes, only the most similar names are listed.
    """
    if name in _INSTEAD:
        return _INSTEAD[name]
    full = list(classes)
    return f"{question(nearest_class(name, full))} {_listed(name, {short_name(one) for one in full})}"


def _listed(name: str, short_names: Collection[str]) -> str:
    if len(short_names) <= _MANY:
        return listed(sorted(short_names))
    likeness = SequenceMatcher(b=short_name(name).lower())

    def unlike(one: str) -> float:
        likeness.set_seq1(one.lower())
        return -likeness.ratio()

    first = sorted(sorted(short_names), key=unlike)[:_MANY]
    return listed([*first, f"and {len(short_names) - _MANY} more"])


def listed(names: Iterable[str]) -> str:
    """A sentence that lists the known names."""
    return f"There are: {', '.join(names) or 'none'}."
