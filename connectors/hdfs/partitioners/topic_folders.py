"""The directory of a topic: `topics.dir` with the groups of its name, and the name itself."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headrace.config.name_regex import name_regex
from headrace.config.problems import ConfigError, Problem
from headrace.connectors.hdfs.file_settings import NamingSettings

_REGEX: Final = "topic.capture.groups.regex"
_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_REMEDY: Final = f"Mend {_REGEX}, or leave the topic out."


@dataclass(frozen=True)
class TopicFolders:
    """The directories of topics."""

    naming: NamingSettings

    def __post_init__(self) -> None:
        """Checks the variables. Errors: ConfigError."""
        groups = 0 if self.naming.capture_groups is None else name_regex(self.naming.capture_groups).groups
        for name in _VARIABLE.findall(self.naming.topics_dir):
            if name != "topic" and not (name.isdecimal() and 1 <= int(name) <= groups):
                text = f"${{{name}}} is neither ${{topic}} nor one of the {groups} groups of {_REGEX}"
                raise ConfigError(Problem("topics.dir", self.naming.topics_dir, text, "Use ${topic}, or a group."))

    def of(self, topic: str) -> str:
        """The topic's directory, below the store's root.

        Errors: ConfigError if the topic does not match the expression.
        """
        return f"{self.above(topic)}/{topic}"

    def above(self, topic: str) -> str:
        """The directory above the topic's; temporary files are there, too."""
        found = None
        if self.naming.capture_groups is not None:
            found = name_regex(self.naming.capture_groups).match(topic)
            if found is None:
                text = f"Topic {topic} does not fully match the specified regex."
                raise ConfigError(Problem(_REGEX, self.naming.capture_groups, text, _REMEDY))

        def value(variable: re.Match[str]) -> str:
            if variable[1] == "topic":
                return topic
            return (found[int(variable[1])] or "") if found is not None else ""

        path = _VARIABLE.sub(value, self.naming.topics_dir)
        return "/".join(part for part in path.split("/") if part)
