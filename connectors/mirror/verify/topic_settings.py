"""What a topic and its copy are set to, as far as the replication keeps it the same."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.connectors.mirror.filters import ConfigPropertyFilter
from headrace.connectors.mirror.verify.cluster import TopicSetting


def differing(
    source: Mapping[str, TopicSetting], target: Mapping[str, TopicSetting], properties: ConfigPropertyFilter
) -> list[str]:
    """The settings that differ and should not, each in a few words.

    A setting that is set at the source is the same at the target; one that is not set at the source is not set at the
    target either, or is the same where defaults come from the source.
    """
    found = []
    for name, ours in sorted(source.items()):
        theirs = target.get(name)
        if theirs is None or not properties.passes(name) or ours.value == theirs.value:
            continue
        if ours.of_topic or theirs.of_topic or properties.defaults_from_source:
            found.append(f"{name} is {_shown(ours)} at the source and {_shown(theirs)} at the target")
    return found


def _shown(setting: TopicSetting) -> str:
    value = setting.value if setting.value not in (None, "") else "empty"
    return f"{value}" if setting.of_topic else f"{value} by default"
