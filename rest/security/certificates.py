"""Maps distinguished names of client certificates to principals by `ssl.principal.mapping.rules`.

    RULE:^CN=([^,]+),OU=ops.*$/$1/L,DEFAULT

The first rule that matches the whole name counts. `$1` is a group, `\\/` a slash; L and U change the case.

Decided: the whole name is replaced once; Kafka looks for further matches, but the only one possible is the empty match
at the end, which doubles the principal (`RULE:.*/x/`); loses: such principals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import regex

from headrace.config.name_regex import NameRegex, TooSlowError
from headrace.config.problems import ConfigError, Problem
from headrace.config.worker.login_settings import MAPPING_RULES
from headrace.rest.security.refusals import WrongLogin

_RULE: Final = regex.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])*+)/(?P<to>(?:\\.|[^\\/])*+)/(?P<case>[LU]?)|DEFAULT|")
_BETWEEN: Final = regex.compile(r"\s*+(?:,|$)\s*+")
_PART: Final = regex.compile(r"\\(?P<plain>.)|\$(?P<group>\d+)|\$\{(?P<name>[A-Za-z][A-Za-z0-9]*)\}", regex.DOTALL)


@dataclass(frozen=True)
class _Rule:
    """A mapping rule; without an expression it keeps every name."""

    matches: NameRegex | None = None
    to: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The principal for this name; None if the rule does not match. Errors: TooSlowError."""
        if self.matches is None:
            return name
        found = self.matches.match(name)
        if found is None:
            return None
        made = str(_PART.sub(lambda part: _put(part, found), self.to))
        return made.lower() if self.case == "L" else made.upper() if self.case == "U" else made


def _put(part: regex.Match[str], found: regex.Match[str]) -> str:
    if part["plain"] is not None:
        return str(part["plain"])
    if part["name"] is not None:
        return str(found[part["name"]] or "")
    digits = part["group"]
    groups = len(found.groups())
    # The longest digits that name a group; the rest is text, or all if there is no such group.
    for length in range(len(digits), 0, -1):
        if int(digits[:length]) <= groups:
            return f"{found[int(digits[:length])] or ''}{digits[length:]}"
    return str(part[0])


class PrincipalMapping:
    """The rules, in order."""

    def __init__(self, rules: str) -> None:
        """Errors: ConfigError."""
        try:
            self._rules = _parse(rules.strip())
        except ValueError as error:
            remedy = "Write RULE:pattern/replacement/, with L or U behind it, or DEFAULT, separated by commas."
            raise ConfigError(Problem(MAPPING_RULES, rules, f"{error}.", remedy)) from None
        self._names = lru_cache(1000)(self._made)

    def name(self, distinguished_name: str) -> str:
        """The principal's name. Errors: LoginRefused if no rule matches."""
        made = self._names(distinguished_name)
        if not made:
            raise WrongLogin(f"no rule of {MAPPING_RULES} makes a name of the certificate's {distinguished_name!r}")
        return made

    def _made(self, name: str) -> str | None:
        try:
            return next((made for rule in self._rules if (made := rule.apply(name)) is not None), None)
        except TooSlowError:
            return None


def _parse(text: str) -> list[_Rule]:
    rules, at = [], 0
    while at < len(text):
        found = _RULE.match(text, at)
        between = _BETWEEN.match(text, found.end())
        if between is None:
            raise ValueError(f"It is no rule from sign {at + 1} on")
        if found["pattern"] is not None:
            matches = NameRegex(found["pattern"])
            for part in _PART.finditer(found["to"]):
                if part["name"] is not None and f"(?<{part['name']}>" not in found["pattern"]:
                    raise ValueError(f"There is no group {part['name']} in {found['pattern']}")
            rules.append(_Rule(matches, found["to"], found["case"]))
        elif found[0]:
            rules.append(_Rule())
        at = between.end()
    if not rules:
        raise ValueError("It has no rule")
    return rules
