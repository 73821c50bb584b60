"""Findings, and the rules that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Severity(StrEnum):
    """The weight of a finding; declared in falling order."""

    ERROR = "error"
    """It does not run, or not as its config says."""
    WARNING = "warning"
    """It runs, and most likely not as meant."""
    NOTE = "note"
    """It runs; an operator should know."""


class Said(NamedTuple):
    """The words of a rule about one setting; None: about the whole config."""

    setting: str | None
    message: str
    advice: str = ""


@dataclass(frozen=True)
class Finding:
    """One result of a rule."""

    rule: str
    severity: Severity
    setting: str | None
    message: str
    advice: str = ""

    def members(self) -> dict[str, str]:
        """The members of its JSON, without a setting that it does not have."""
        found = {"rule": self.rule, "severity": str(self.severity), "message": self.message, "advice": self.advice}
        return found if self.setting is None else {**found, "setting": self.setting}


@dataclass(frozen=True)
class Rule(Generic[T]):
    """A rule about a `T`."""

    id: str
    severity: Severity
    summary: str
    """A sentence for the page of rules and for SARIF."""
    look: Callable[[T], Iterator[Said]]

    def findings(self, about: T) -> Iterator[Finding]:
        """The findings about this one."""
        for said in self.look(about):
            yield self.finding(said)

    def finding(self, said: Said) -> Finding:
        """A finding of this rule."""
        return Finding(self.id, self.severity, said.setting, said.message, said.advice)


def rule(id_: str, severity: Severity, summary: str) -> Callable[[Callable[[T], Iterator[Said]]], Rule[T]]:
    """Makes a rule of a function."""
    return lambda look: Rule(id_, severity, summary, look)
