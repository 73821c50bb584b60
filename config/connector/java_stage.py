"""The Java stage of a connector: the transforms and converters that run in Java, from jars or between such ones.

Records of a Java connector cross once between Java and this worker. In its sources all transforms up to the last Java
one run in the stage, in its sinks all from the first Java one on. Records of any other connector cross into Java and
back, so the stage has all transforms from the first Java one to the last. A transform with a Java predicate counts as a
Java one. A Java converter is at Kafka's end of the chain, so all transforms between it and the other Java ones run in
the stage, too; a Java header converter moves all transforms into it.

A transform that reads the values of headers has to know their types. On Spark only a sink does, before all Java ones,
if its header converter gives all values one type. Anywhere else the Java class of its name runs.

Decided: a chain that needs more crossings is refused, because each crossing costs more than most transforms; loses:
chains in which a transform without a Java class stands between Java ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from headrace.config.connector.config import ConverterConfig, converter_config
from headrace.config.connector.enrichment import PluginClass, PluginLookup
from headrace.config.connector.plugin_versions import of_version
from headrace.config.connector.settings import CONVERTER_KINDS
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Type
from headrace.config.values import read

_JAR: Final = "A jar with this transform on plugin.path serves it in any case."
_BEHIND_JAVA: Final = "behind a Java plugin only Java knows them"


class ChainStep(NamedTuple):
    """One transform of a chain, with its predicate."""

    alias: str
    transform: PluginClass
    predicate_alias: str | None
    predicate: PluginClass | None
    lacks_types: str = ""
    """The reason that only Java knows types of headers whose values the transform reads; empty if Spark knows them."""

    @property
    def is_java(self) -> bool:
        """True if only Java can apply the step."""
        from_jar = self.transform.from_jar or (self.predicate is not None and self.predicate.from_jar)
        return from_jar or bool(self.lacks_types)


@dataclass(frozen=True)
class ChainSplit:
    """The transforms of a connector by the place where they run, each part in order."""

    in_java: tuple[ChainStep, ...] = ()
    before: tuple[ChainStep, ...] = ()
    """Run by Spark before the Java stage; the whole chain if there is no stage."""
    after: tuple[ChainStep, ...] = ()
    """Run by Spark after the Java stage."""
    converters: tuple[tuple[str, PluginClass], ...] = ()
    """The converters of the Java stage, each with its side: `key`, `value` or `header`."""
    problems: tuple[Problem, ...] = ()
    """Problems that keep the chain from running."""


def split_chain(
    connector: PluginClass, config: Mapping[str, str | None], plugins: PluginLookup, worker: Mapping[str, str]
) -> ChainSplit:
    """Splits the connector's chain; unknown plugins are left out, because other checks refuse them."""
    steps = tuple(_steps(config, plugins.beside(connector)))
    sides = {side: converter_lookup(side, config, plugins, connector) for side in CONVERTER_KINDS}
    converters = tuple(_java_converters(config, sides, worker))
    if any(_reads_headers(step.transform) for step in steps):
        header = _converter(sides["header"], "header_converter", "header", config, worker)
        why = _no_types(connector, header, converters, converter_config("header", config, worker))
        steps = tuple(_marked(steps, why))
    begin, end = _stage(connector, steps, dict(converters))
    if begin == end and not converters:
        return ChainSplit(before=steps)
    if converters or not connector.from_jar:
        converters = tuple(_with_headers(converters, config, sides["header"], worker))
    split = ChainSplit(steps[begin:end], steps[:begin], steps[end:], converters)
    return replace(split, problems=tuple(_not_in_java(split, connector, config)))


def converter_lookup(
    side: str, config: Mapping[str, str | None], plugins: PluginLookup, connector: PluginClass
) -> PluginLookup:
    """The lookup for this side's converter: the connector's own if its config names the converter."""
    return plugins if config.get(f"{side}.converter") is None else plugins.beside(connector)


def _marked(steps: Sequence[ChainStep], why: str) -> Iterator[ChainStep]:
    """Mark the steps that lack the types of headers; `why` the first one does, empty if it has them."""
    for step in steps:
        marked = step._replace(lacks_types=why if _reads_headers(step.transform) else "")
        if marked.is_java:
            why = why or _BEHIND_JAVA
        yield marked


def _reads_headers(transform: PluginClass) -> bool:
    try:
        return not transform.from_jar and bool(transform.load().reads_headers)
    except ConfigError:
        return False  # other checks refuse it


def _no_types(
    connector: PluginClass, header: PluginClass | None, java_converters: Collection[object], given: ConverterConfig
) -> str:
    """The reason that Spark does not know the types of headers; empty if their converter gives all values one type."""
    if connector.kind == "source":
        return "in a source only Java knows them"
    if java_converters:
        return _BEHIND_JAVA
    try:
        if header is None or _has_schema(header.load()(), given.props):
            return ""
    except ConfigError:
        return ""  # other checks refuse it
    return (
        f"header.converter {given.class_name} does not give all values one. Name one that does, such as "
        "org.apache.kafka.connect.storage.StringConverter (Cast makes numbers of texts)"
    )


def _has_schema(converter: Any, props: Mapping[str, str]) -> bool:
    converter.configure(props, False)
    with closing(converter):
        return converter.header_schema is not None


def _stage(connector: PluginClass, steps: Sequence[ChainStep], converters: Collection[str]) -> tuple[int, int]:
    """Begin and end of the steps in Java; `converters`: the sides with a Java converter."""
    java = [number for number, step in enumerate(steps) if step.is_java]
    is_source = connector.kind == "source"
    if "header" in converters or (connector.from_jar and converters):
        return 0, len(steps)
    if connector.from_jar:
        return (0, max(java, default=-1) + 1) if is_source else (min(java, default=len(steps)), len(steps))
    if is_source:
        end = len(steps) if converters else max(java, default=-1) + 1
        return min(java, default=end), end
    begin = 0 if converters else min(java, default=0)
    return begin, max(java, default=begin - 1) + 1


def _steps(config: Mapping[str, str | None], plugins: PluginLookup) -> Iterator[ChainStep]:
    for alias in dict.fromkeys(read("transforms", Type.LIST, config.get("transforms") or "")):
        transform = _configured(plugins, "transformation", f"transforms.{alias}", config)
        predicate = config.get(f"transforms.{alias}.predicate")
        found = None if predicate is None else _configured(plugins, "predicate", f"predicates.{predicate}", config)
        if transform is not None:
            yield ChainStep(alias, transform, predicate, found)


def _java_converters(
    config: Mapping[str, str | None], sides: Mapping[str, PluginLookup], worker: Mapping[str, str]
) -> Iterator[tuple[str, PluginClass]]:
    for side, plugins in sides.items():
        kind = "header_converter" if side == "header" else "converter"
        found = _converter(plugins, kind, side, config, worker)
        if found is not None and found.from_jar:
            yield side, found


def _with_headers(
    converters: tuple[tuple[str, PluginClass], ...],
    config: Mapping[str, str | None],
    plugins: PluginLookup,
    worker: Mapping[str, str],
) -> Iterator[tuple[str, PluginClass]]:
    """Adds the header converter: Java converters of keys and values see Kafka's headers."""
    yield from converters
    if "header" not in dict(converters):
        found = _converter(plugins, "header_converter", "header", config, worker)
        if found is not None:
            yield "header", found


def _configured(plugins: PluginLookup, kind: str, prefix: str, config: Mapping[str, str | None]) -> PluginClass | None:
    return _named(plugins, kind, config.get(f"{prefix}.type"), config.get(f"{prefix}.plugin.version"))


def _converter(
    plugins: PluginLookup, kind: str, side: str, config: Mapping[str, str | None], worker: Mapping[str, str]
) -> PluginClass | None:
    version = config.get(f"{side}.converter.plugin.version") if config.get(f"{side}.converter") is not None else None
    return _named(plugins, kind, converter_config(side, config, worker).class_name, version)


def _named(plugins: PluginLookup, kind: str, name: str | None, version: str | None) -> PluginClass | None:
    full = plugins.full_name(name.strip()) if name else None
    found = next((one for one in plugins.of_kind(kind) if one.class_name == full), None)
    return None if found is None else of_version(found, version)


def _not_in_java(split: ChainSplit, connector: PluginClass, config: Mapping[str, str | None]) -> Iterator[Problem]:
    """A problem for each plugin in the Java stage without a Java class; those that bring others there come alone."""
    if lacking := [one for one in split.in_java if one.lacks_types and not one.transform.has_java_class]:
        for step in lacking:
            key, name = f"transforms.{step.alias}.type", step.transform.class_name
            text = f"{name} needs the types of headers beforehand, but {step.lacks_types}. {_JAR}"
            yield Problem(key, config.get(key), text, "")
        return
    for side, converter in split.converters:
        if not converter.has_java_class:
            text = f"{converter.class_name} has no Java class, which it needs beside {_first_in_java(split)}."
            yield Problem(f"{side}.converter", config.get(f"{side}.converter"), text, "")
    for step in split.in_java:
        for key, plugin in (
            (f"transforms.{step.alias}.type", step.transform),
            (f"predicates.{step.predicate_alias}.type", step.predicate),
        ):
            if plugin is not None and not plugin.has_java_class:
                yield Problem(key, config.get(key), f"{plugin.class_name} {_why(step, split, connector)}", "")


def _first_in_java(split: ChainSplit) -> str:
    (_, converter), *_ = split.converters
    if converter.from_jar:
        return f"the Java plugin {converter.class_name}"
    return f"the Java plugin of the transform {next(one.alias for one in split.in_java if one.is_java)}"


def _why(step: ChainStep, split: ChainSplit, connector: PluginClass) -> str:
    if step.is_java:
        return f"has no Java class, which it needs beside the Java plugin of the transform {step.alias}."
    java = [one.alias for one in split.in_java if one.is_java]
    named = next(((side, one) for side, one in split.converters if one.from_jar), None)
    if connector.from_jar:
        return _why_beside_java(step.alias, java, named, connector.kind)
    where = "all transforms from the first Java one to the last run in Java"
    can = [f"before {java[0]}", f"after {java[-1]}"] if java else []
    if named is not None:
        side, converter = named
        is_source = connector.kind == "source"
        span = "" if side == "header" else " after the first Java one" if is_source else " before the last Java one"
        where = f"all transforms{span} run in Java, because {side}.converter is the Java plugin {converter.class_name}"
        can = [] if side == "header" else can[:1] if is_source else can[1:]
    advice = f"Move {step.alias} {' or '.join(can)} in transforms." if can else _other_converter(step.alias)
    return f"has no Java class, but {where}. {advice}"


def _why_beside_java(alias: str, java: Sequence[str], named: tuple[str, PluginClass] | None, kind: str) -> str:
    if named is not None:
        side, converter = named
        where = f"all transforms run in Java, because {side}.converter is the Java plugin {converter.class_name}"
        return f"has no Java class, but {where}. {_other_converter(alias)}"
    if kind == "source":
        return (
            f"has no Java class, but in a source all transforms before the last Java one run in Java. "
            f"Move {alias} after {java[-1]} in transforms."
        )
    return (
        f"has no Java class, but in a sink all transforms after the first Java one run in Java. "
        f"Move {alias} before {java[0]} in transforms."
    )


def _other_converter(alias: str) -> str:
    return f"Use another converter, or remove the transform {alias}."
