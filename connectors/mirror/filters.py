"""Chooses the topics, consumer groups and topic settings to replicate, by MirrorMaker 2's filters.

The regular expressions of a list are joined by `|` and have to match a whole name; exclusions win; an empty list
matches nothing.

Decided: there are the filters that Apache ships, and no others, because two lists cover the requests; loses: a filter
class in Java is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headrace.config.name_regex import name_regex
from headrace.config.problems import ConfigError, Problem
from headrace.connectors.mirror.settings import CHECKPOINT, SOURCE

_JAVA: Final = "org.apache.kafka.connect.mirror."
_ADVICE: Final = (
    "Write it as Java reads it: `\\.` for a dot, `[a-z0-9]` for classes, `(?i)` for any case; a comma always "
    "separates two expressions, so write `a{1}|aa` for `a{1,2}`."
)


class NameExpressions:
    """The expressions of a setting: one has to match a whole name; none matches nothing."""

    def __init__(self, setting: str, expressions: Sequence[str]) -> None:
        """Errors: ConfigError that names the setting."""
        joined = "|".join(expressions)
        try:
            self._pattern = name_regex(joined) if expressions else None
        except ValueError as error:
            message = f"is no regular expression that can be served: {error}"
            raise ConfigError(Problem(setting, ",".join(expressions), message, _ADVICE)) from None

    def matches(self, name: str) -> bool:
        """True if one of them matches the whole name."""
        return self._pattern is not None and self._pattern.match(name) is not None


class NameFilter(NamedTuple):
    """Passes names that are included and not excluded."""

    included: NameExpressions
    excluded: NameExpressions

    def passes(self, name: str) -> bool:
        """True if it is replicated."""
        return self.included.matches(name) and not self.excluded.matches(name)


class ConfigPropertyFilter(NamedTuple):
    """Chooses the settings of a topic that are copied to the other cluster."""

    excluded: NameExpressions
    defaults_from_source: bool
    """True if a setting that is unset at the source gets the source's default, not the target's."""

    def passes(self, name: str) -> bool:
        """True if this setting is copied if it is set."""
        return not self.excluded.matches(name)


def topic_filter(config: Mapping[str, str]) -> NameFilter:
    """The filter of topics in a connector's config. Errors: ConfigError."""
    _only_ours(config, "topic.filter.class", "DefaultTopicFilter", "topics and topics.exclude")
    return NameFilter(_pattern(config, "topics"), _pattern(config, "topics.exclude"))


def group_filter(config: Mapping[str, str]) -> NameFilter:
    """The filter of consumer groups in a connector's config. Errors: ConfigError."""
    _only_ours(config, "group.filter.class", "DefaultGroupFilter", "groups and groups.exclude")
    return NameFilter(_pattern(config, "groups"), _pattern(config, "groups.exclude"))


def config_property_filter(config: Mapping[str, str]) -> ConfigPropertyFilter:
    """The filter of topic settings in a connector's config. Errors: ConfigError."""
    setting = "config.property.filter.class"
    _only_ours(config, setting, "DefaultConfigPropertyFilter", "config.properties.exclude and use.defaults.from")
    excluded = _pattern(config, "config.properties.exclude")
    return ConfigPropertyFilter(excluded, config.get("use.defaults.from", "target").strip() == "source")


def _pattern(config: Mapping[str, str], setting: str) -> NameExpressions:
    declared = (CHECKPOINT if setting.startswith("groups") else SOURCE)[setting]
    return NameExpressions(setting, declared.judge(config).value)


def _only_ours(config: Mapping[str, str], setting: str, known: str, instead: str) -> None:
    name = config.get(setting, known).strip()
    if name.removeprefix(_JAVA) != known:
        remedy = f"Remove {setting}, and choose by {instead}."
        raise ConfigError(Problem(setting, name, f"Only {_JAVA}{known} is served here.", remedy))
