"""Conflicts between a connector's settings, and the configs of its converters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.config.connector.settings import SINK, SOURCE
from headrace.config.name_regex import TooSlowError, name_regex
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Settings, SettingValue
from headrace.config.values import shown

Fault = tuple[str, str]
"""A fault of a setting, and its remedy."""
UNSERVED: Final = {
    "offsets.storage.topic": "Offsets topics of single connectors",
}
"""Settings that this version does not support, with their subjects."""


def framework_settings(kind: str) -> Settings:
    """The framework's settings for a kind of connector, `source` or `sink`."""
    return {"source": SOURCE, "sink": SINK}[kind]


def sink_conflicts(found: Mapping[str, SettingValue], worker_group: str | None, overridden_group: str | None) -> None:
    """Adds conflicts between a sink's settings to `found`; `worker_group`: a distributed worker's group."""
    topics: Sequence[str] = found["topics"].value or []
    regex: str = found["topics.regex"].value or ""
    dead_letters: str = found["errors.deadletterqueue.topic.name"].value or ""
    both = [found["topics"].errors, found["topics.regex"].errors]
    readable = not both[1]
    if topics and regex:
        for errors in both:
            errors.append("topics and topics.regex are mutually exclusive options, but both are set.")
    if not topics and not regex:
        for errors in both:
            errors.append("Must configure one of topics or topics.regex")
    if consumes(dead_letters, topics):
        both[0].append(
            f"The DLQ topic '{dead_letters}' may not be included in the list of topics "
            f"('topics={shown(list(topics))}') consumed by the connector"
        )
    matched = (
        f"The DLQ topic '{dead_letters}' may not be matched by the regex for the topics "
        f"('topics.regex={regex}') consumed by the connector"
    )
    if readable:
        both[1] += [". ".join(filter(None, fault)) for fault in consumption(dead_letters, (), regex, (matched, ""))]
    if worker_group is not None:
        _group_conflict(found, worker_group, overridden_group)


def _group_conflict(found: Mapping[str, SettingValue], worker_group: str, overridden_group: str | None) -> None:
    name = found["name"].value
    if overridden_group is None and sink_group(name or "") == worker_group:
        found["name"].errors.append(
            f"Consumer group for sink connector named {name} conflicts with Connect worker group {worker_group}"
        )


def consumes(topic: str, topics: Collection[str], regex: str = "") -> bool:
    """True if a sink with these `topics` and `topics.regex` reads the topic; the regex must match the whole name.

    Errors: ConfigError if the regex is refused; TooSlowError.
    """
    if not topic or topic in topics or not regex:
        return bool(topic) and topic in topics
    try:
        expression = name_regex(regex)
    except ValueError as error:
        raise ConfigError(Problem("topics.regex", regex, str(error), "Write one that is served.")) from None
    return expression.match(topic) is not None


def consumption(topic: str, topics: Collection[str], regex: str, fault: Fault) -> list[Fault]:
    """The faults of a topic of failed records: this one if the sink reads it, too; that of a regex that is too slow.

    Errors: ConfigError if the regex is refused.
    """
    try:
        return [fault] if consumes(topic, topics, regex) else []
    except TooSlowError as error:
        return [(one.message, one.remedy) for one in error.problems]


def sink_group(name: str) -> str:
    """The default consumer group of a sink connector."""
    return f"connect-{name}"


class ConverterConfig(NamedTuple):
    """The class of a converter as named in the config, and its properties."""

    class_name: str
    props: dict[str, str]


def converter_config(kind: str, connector: Mapping[str, str | None], worker: Mapping[str, str]) -> ConverterConfig:
    """The converter of a connector for `key`, `value` or `header`.

    Its properties come from the place that names its class: the connector, else the worker. The two are not merged, so
    a worker's `schemas.enable` does not reach a converter that the connector chose.
    """
    name = f"{kind}.converter"
    own = connector.get(name)
    place: Mapping[str, str | None] = connector if own is not None else worker
    default = "org.apache.kafka.connect.storage.SimpleHeaderConverter" if kind == "header" else ""
    class_name = (own or worker.get(name) or default).strip()
    prefix = f"{name}."
    props = {k.removeprefix(prefix): v for k, v in place.items() if k.startswith(prefix) and v is not None}
    props.pop("plugin.version", None)
    return ConverterConfig(class_name, {**props, "converter.type": kind})


def unserved(connector: Mapping[str, str]) -> list[Problem]:
    """Problems of settings that this version does not support: refused rather than silently ignored."""
    return [
        Problem(key, connector[key], f"{what} are not served by this version of Headrace.", f"Remove {key}.")
        for key, what in UNSERVED.items()
        if connector.get(key, "").strip()
    ]
