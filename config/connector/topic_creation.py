"""`topic.creation.*` of a source connector: partitions, replicas and configs of the topics that it creates.

    TopicCreation.of({"topic.creation.default.partitions": "3", "topic.creation.default.replication.factor": "-1"})

Decided: keys of a group that `topic.creation.groups` does not name are logged, because Apache ignores them silently and
creates the topic as in `default`; they are no error, because Apache accepts such a config.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.connector.settings import SOURCE
from headrace.config.name_regex import name_regex
from headrace.config.problems import ConfigError
from headrace.config.settings import REQUIRED, Setting, Settings, Type
from headrace.config.validators import Check, OrNull, PositiveOrBrokers, Validator
from headrace.config.values import invalid, read

log = logging.getLogger(__name__)

PREFIX: Final = "topic.creation."
GROUPS: Final = "topic.creation.groups"
DEFAULT: Final = "default"

_PARTITIONS: Final = PositiveOrBrokers("Number of partitions must be positive")
_REPLICAS: Final = PositiveOrBrokers(
    "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster"
)


@dataclass(frozen=True)
class TopicGroup:
    """Topics that are created alike; -1 partitions or replicas: the broker's default."""

    name: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    partitions: int
    replication_factor: int
    config: Mapping[str, str]

    def covers(self, topic: str) -> bool:
        """True if a regex of `include` matches the whole name, and none of `exclude` does."""
        return _matches(self.include, topic) and not _matches(self.exclude, topic)


@dataclass(frozen=True)
class TopicCreation:
    """A connector's groups in the order of trial; the last, `default`, covers every topic."""

    groups: tuple[TopicGroup, ...]

    @classmethod
    def of(cls, connector: Mapping[str, str]) -> TopicCreation | None:
        """A connector's settings for its topics; None if there are none, and the broker decides.

        Errors: ConfigError with all problems.
        """
        if not any(key.startswith(PREFIX) for key in connector):
            return None
        listed: Sequence[str] = Settings(SOURCE[GROUPS]).parse(connector)[GROUPS]
        names = [name for name in listed if name != DEFAULT]
        for key in of_unnamed_groups(connector):
            log.warning("%s has no effect: no group of %s has this name; add it there, or remove the key", key, GROUPS)
        groups = [(DEFAULT, OF_DEFAULT), *((name, OF_GROUP) for name in names)]
        found = [
            problem for name, settings in groups for problem in settings.prefixed(_prefix(name)).problems(connector)
        ]
        if found:
            raise ConfigError(found, "topic.creation")
        default = _group(DEFAULT, OF_DEFAULT, connector, {})
        fallback = {"partitions": default.partitions, "replication.factor": default.replication_factor}
        return cls((*(_group(name, OF_GROUP, connector, fallback) for name in names), default))

    def group_of(self, topic: str) -> TopicGroup:
        """The first group that covers the topic."""
        return next(group for group in self.groups if group.covers(topic))


def _group(name: str, settings: Settings, connector: Mapping[str, str], fallback: Mapping[str, int]) -> TopicGroup:
    prefix = _prefix(name)
    given = {key.removeprefix(prefix): value for key, value in connector.items() if key.startswith(prefix)}
    parsed = settings.parse(given)
    values = {**parsed, **{key: value for key, value in fallback.items() if parsed[key] is None}}
    return TopicGroup(
        name,
        tuple(values["include"]),
        tuple(values["exclude"]),
        values["partitions"],
        values["replication.factor"],
        {key: value for key, value in given.items() if key not in settings},
    )


def of_unnamed_groups(connector: Mapping[str, str]) -> Iterator[str]:
    """The settings of groups that `topic.creation.groups` does not name."""
    named = read(GROUPS, Type.LIST, connector.get(GROUPS, ""))
    known = (GROUPS, *(_prefix(name) for name in (*named, DEFAULT)))
    yield from (key for key in connector if key.startswith(PREFIX) and not key.startswith(known))


def _prefix(group: str) -> str:
    return f"{PREFIX}{group}."


def _matches(regexes: Sequence[str], topic: str) -> bool:
    return any(name_regex(regex).match(topic) for regex in regexes)


def _regexes(name: str, value: Any) -> str | None:
    for regex in value or ():
        try:
            name_regex(regex)
        except ValueError as error:
            return invalid(name, regex, f"Invalid regex: {error}")
    return None


def _nothing_but(only: list[str]) -> Check:
    def rule(name: str, value: Any) -> str | None:
        return None if value == only else invalid(name, value, "the default group takes what no other group takes")

    return Check(rule, ",".join(only) or "nothing")


_REGEXES: Final = Check(_regexes, "a comma-separated list of regular expressions")


def _set(name: str, type_: Type, default: Any, validator: Validator, text: str) -> Setting:
    return Setting(name, type_, default, validator, documentation=text)


OF_DEFAULT: Final = Settings(
    _set("include", Type.LIST, [".*"], _nothing_but([".*"]), "Every topic that no group takes."),
    _set("exclude", Type.LIST, [], _nothing_but([]), "None."),
    _set("partitions", Type.INT, REQUIRED, _PARTITIONS, "How many partitions a new topic gets."),
    _set("replication.factor", Type.SHORT, REQUIRED, _REPLICAS, "How many replicas a new topic gets."),
)
"""The settings of the group `default`; other keys under its prefix are topic configs."""
OF_GROUP: Final = Settings(
    _set("include", Type.LIST, REQUIRED, _REGEXES, "The topics of this group: one must match the whole name."),
    _set("exclude", Type.LIST, [], _REGEXES, "Topics that are not of this group though include matches them."),
    _set("partitions", Type.INT, None, OrNull(_PARTITIONS), "As of default, which applies if not set."),
    _set("replication.factor", Type.SHORT, None, OrNull(_REPLICAS), "As of default, which applies if not set."),
)
"""The settings of a group in `topic.creation.groups`; other keys under its prefix are topic configs."""
