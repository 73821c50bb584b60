"""Which topics, consumer groups and topic settings are replicated: MirrorMaker 2's filters.

The regular expressions of a list are joined by `|` and have to match a whole name; what is excluded wins over what is
included; an empty list matches nothing.

Decided: there are the filters that Apache ships, and no others, because they cover what is asked for by two lists;
loses: a filter class in Java is refused.
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


class NamePattern:
    """The expressions of a setting, of which one has to match a whole name; none matches nothing."""

    def __init__(self, setting: str, expressions: Sequence[str]) -> None:
        """Errors: ConfigError that names the setting."""
        joined = "|".join(expressions)
        try:
            self._pattern = name_regex(joined) if expressions else None
        except ValueError as error:
            message = f"is no regular expression that can be served: {error}"
            raise ConfigError(Problem(setting, ",".join(expressions), message, _ADVICE)) from None

    def matches(self, name: str) -> bool:
        """Whether one of them matches the whole name."""
        return self._pattern is not None and self._pattern.match(name) is not None


class NameFilter(NamedTuple):
    """Passes names that are included and not excluded."""

    included: NamePattern
    excluded: NamePattern

    def passes(self, name: str) -> bool:
        """Whether it is replicated."""
        return self.included.matches(name) and not self.excluded.matches(name)


class ConfigPropertyFilter(NamedTuple):
    """Says which settings of a topic are copied to the other cluster."""

    excluded: NamePattern
    defaults_from_source: bool
    """Whether a setting that is not set at the source is set to the source's default, and not left to the target's."""

    def passes(self, name: str) -> bool:
        """Whether this setting is copied where it is set."""
        return not self.excluded.matches(name)


def topic_filter(config: Mapping[str, str]) -> NameFilter:
    """The filter of topics that a connector's config asks for. Errors: ConfigError."""
    _only_ours(config, "topic.filter.class", "DefaultTopicFilter", "topics and topics.exclude")
    return NameFilter(_pattern(config, "topics"), _pattern(config, "topics.exclude"))


def group_filter(config: Mapping[str, str]) -> NameFilter:
    """The filter of consumer groups that a connector's config asks for. Errors: ConfigError."""
    _only_ours(config, "group.filter.class", "DefaultGroupFilter", "groups and groups.exclude")
    return NameFilter(_pattern(config, "groups"), _pattern(config, "groups.exclude"))


def config_property_filter(config: Mapping[str, str]) -> ConfigPropertyFilter:
    """The filter of topic settings that a connector's config asks for. Errors: ConfigError."""
    setting = "config.property.filter.class"
    _only_ours(config, setting, "DefaultConfigPropertyFilter", "config.properties.exclude and use.defaults.from")
    excluded = _pattern(config, "config.properties.exclude")
    return ConfigPropertyFilter(excluded, config.get("use.defaults.from", "target").strip() == "source")


def _pattern(config: Mapping[str, str], setting: str) -> NamePattern:
    declared = (CHECKPOINT if setting.startswith("groups") else SOURCE)[setting]
    return NamePattern(setting, declared.judge(config).value)


def _only_ours(config: Mapping[str, str], setting: str, known: str, instead: str) -> None:
    name = config.get(setting, known).strip()
    if name.removeprefix(_JAVA) != known:
        remedy = f"Remove {setting}, and choose by {instead}."
        raise ConfigError(Problem(setting, name, f"Only {_JAVA}{known} is served here.", remedy))
