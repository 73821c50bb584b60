"""The problems of a configuration, all reported at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.config.values import HIDDEN, looks_secret


@dataclass(frozen=True)
class Problem:
    """One fault of a configuration: the key, its value, the fault and the remedy."""

    key: str
    value: str | None
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        value = HIDDEN if self.value is not None and looks_secret(self.key) else self.value
        given = "not set" if value is None else f"= {value!r}"
        text = f"{self.key} ({given}): {self.message}"
        if not self.remedy:
            return text
        return f"{text}{'' if text.endswith('.') else '.'} {self.remedy}"


class ConfigError(ValueError):
    """Refuses a configuration; `problems` lists all its faults.

    Errors: the branch "refuse the config" of the worker's errors; a retry with the same configuration fails again.
    """

    def __init__(self, problems: Iterable[Problem] | Problem, where: str = "") -> None:
        self.problems = [problems] if isinstance(problems, Problem) else list(problems)
        self.where = where
        super().__init__(self._text())

    def _text(self) -> str:
        if len(self.problems) == 1 and not self.where:
            return str(self.problems[0])
        head = f"{self.where or 'The configuration'} has {len(self.problems)} problem(s):"
        return "\n".join([head, *(f"  {number}. {problem}" for number, problem in enumerate(self.problems, 1))])

    def within(self, where: str) -> ConfigError:
        """The same problems with `where` (a file, a connector) in the text."""
        return ConfigError(self.problems, where)
