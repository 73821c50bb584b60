"""Which of a connector's transforms and converters run in Java: those of jars, and what stands before them there.

Records cross once between a Java connector and this worker. So in a source all transforms up to the last Java one run
before the crossing, as Java classes; in a sink all from the first Java one on run after it. A transform whose predicate
is Java's counts as a Java one. A Java converter stands at the far end of the chain, so all transforms run in Java then.

Decided: what would have to cross twice is refused and not done, because each crossing costs more than most transforms;
loses: chains in which a transform without a Java class stands on the connector's side of a Java one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from headrace.config.connector import converter_config
from headrace.config.connector_settings import CONVERTER_KINDS
from headrace.config.enrichment import PluginClass, PluginLookup
from headrace.config.plugin_versions import of_version
from headrace.config.problems import Problem
from headrace.config.settings import Type
from headrace.config.values import read


class ChainStep(NamedTuple):
    """One transform of a chain, with its predicate."""

    alias: str
    transform: PluginClass
    predicate_alias: str | None
    predicate: PluginClass | None

    @property
    def is_java(self) -> bool:
        """Whether only Java can apply it."""
        return self.transform.from_jar or (self.predicate is not None and self.predicate.from_jar)


@dataclass(frozen=True)
class ChainSplit:
    """The transforms of a connector by where they run, each part in its order."""

    in_java: tuple[ChainStep, ...] = ()
    on_spark: tuple[ChainStep, ...] = ()
    converters: tuple[tuple[str, PluginClass], ...] = ()
    """The converters that run in Java, each with its side: `key`, `value` or `header`."""
    problems: tuple[Problem, ...] = ()
    """Why the chain cannot run."""


def split_chain(
    connector: PluginClass, config: Mapping[str, str | None], plugins: PluginLookup, worker: Mapping[str, str]
) -> ChainSplit:
    """Split the chain of this connector; what names no plugin is left out, as others refuse it."""
    steps = list(_steps(config, plugins))
    converters = tuple(_java_converters(config, plugins, worker))
    if not connector.from_jar:
        refused = (*_refused_steps(steps, config, connector), *_refused_converters(converters, config, connector))
        return ChainSplit((), tuple(steps), (), refused)
    converters = tuple(_with_headers(converters, config, plugins, worker))
    java = [number for number, step in enumerate(steps) if step.is_java]
    if connector.kind == "source":
        end = len(steps) if converters else max(java, default=-1) + 1
        split = ChainSplit(tuple(steps[:end]), tuple(steps[end:]), converters)
    else:
        begin = 0 if converters else min(java, default=len(steps))
        split = ChainSplit(tuple(steps[begin:]), tuple(steps[:begin]), converters)
    return ChainSplit(split.in_java, split.on_spark, converters, tuple(_not_in_java(split, connector.kind, config)))


def _steps(config: Mapping[str, str | None], plugins: PluginLookup) -> Iterator[ChainStep]:
    for alias in dict.fromkeys(read("transforms", Type.LIST, config.get("transforms") or "")):
        transform = _configured(plugins, "transformation", f"transforms.{alias}", config)
        predicate = config.get(f"transforms.{alias}.predicate")
        found = None if predicate is None else _configured(plugins, "predicate", f"predicates.{predicate}", config)
        if transform is not None:
            yield ChainStep(alias, transform, predicate, found)


def _java_converters(
    config: Mapping[str, str | None], plugins: PluginLookup, worker: Mapping[str, str]
) -> Iterator[tuple[str, PluginClass]]:
    for side in CONVERTER_KINDS:
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
    """The converters, and that of headers with them: Java converters of keys and values see Kafka's headers."""
    yield from converters
    if converters and "header" not in dict(converters):
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


def _refused_steps(
    steps: list[ChainStep], config: Mapping[str, str | None], connector: PluginClass
) -> Iterator[Problem]:
    for step in steps:
        if step.transform.from_jar:
            yield _only_with_jars(f"transforms.{step.alias}.type", step.transform, connector, config)
        if step.predicate is not None and step.predicate.from_jar:
            yield _only_with_jars(f"predicates.{step.predicate_alias}.type", step.predicate, connector, config)


def _refused_converters(
    converters: tuple[tuple[str, PluginClass], ...], config: Mapping[str, str | None], connector: PluginClass
) -> Iterator[Problem]:
    for side, converter in converters:
        yield _only_with_jars(f"{side}.converter", converter, connector, config)


def _only_with_jars(key: str, plugin: PluginClass, connector: PluginClass, config: Mapping[str, str | None]) -> Problem:
    why = f"{plugin.class_name} is a Java plugin; it can run only with a connector from a jar"
    text = f"{why}; {connector.class_name} is none. Name one that Headrace has itself."
    return Problem(key, config.get(key), text, "")


def _not_in_java(split: ChainSplit, kind: str, config: Mapping[str, str | None]) -> Iterator[Problem]:
    """A problem for each plugin that would have to run in Java and has no Java class."""
    for side, converter in split.converters:
        if not converter.has_java_class:
            java = f"beside the Java plugin {split.converters[0][1].class_name}"
            text = f"{converter.class_name} has no Java class, which it needs {java}."
            yield Problem(f"{side}.converter", config.get(f"{side}.converter"), text, "")
    for step in split.in_java:
        for key, plugin in (
            (f"transforms.{step.alias}.type", step.transform),
            (f"predicates.{step.predicate_alias}.type", step.predicate),
        ):
            if plugin is not None and not plugin.has_java_class:
                yield Problem(key, config.get(key), f"{plugin.class_name} {_why(step, split, kind)}", "")


def _why(step: ChainStep, split: ChainSplit, kind: str) -> str:
    if step.is_java:
        return f"has no Java class, which it needs beside the Java plugin of the transform {step.alias}."
    if split.converters:
        side, converter = split.converters[0]
        where = f"all transforms run in Java, because {side}.converter is the Java plugin {converter.class_name}"
        return f"has no Java class, but {where}. Use another converter, or remove the transform {step.alias}."
    java = [one.alias for one in split.in_java if one.is_java]
    if kind == "source":
        return (
            f"has no Java class, but in a source all transforms before the last Java one run in Java. "
            f"Move {step.alias} behind {java[-1]} in transforms."
        )
    return (
        f"has no Java class, but in a sink all transforms after the first Java one run in Java. "
        f"Move {step.alias} before {java[0]} in transforms."
    )
