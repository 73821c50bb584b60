"""The rights file: rights of users and groups on connectors. `rest/security/rights.py` asks it for each request.

    [groups]
    operators = ["anna", "CN=ben,O=Example"]

    [[rules]]
    who = ["group:operators", "user:carol"]
    connectors = ["orders-*"]
    rights = ["view", "operate"]

Rules add up, in any order; a right that no rule gives is refused.

Decided: every right on a connector includes view, and edit includes view_config, because the answer of a PATCH has the
whole config, and an editor may put anything into it; loses: rights to write without reading.
Decided: a file without rules is an error, because a file that is being written looks like that; loses: nobody can shut
out everybody by an empty file.
"""

from __future__ import annotations

import fnmatch
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.config.suggestions import nearest, question

RIGHTS_FILE: Final = "rest.rights.file"
"""The worker's setting with the file's name."""
ANONYMOUS: Final = "ANONYMOUS"
"""The name of a requester without login."""
_EVERYBODY: Final = "*"
_MOST_BYTES: Final = 1 << 20
_LONGEST_PATTERN: Final = 500
_MOST_STARS: Final = 10
_TOP: Final = ("groups", "rules")
_MEMBERS: Final = ("who", "connectors", "rights")
_HEADER: Final = re.compile(r"\s*\[\[\s*rules\s*\]\]")


class Right(StrEnum):
    """A right that a rule gives."""

    VIEW = "view"
    """See that a connector exists, its state and its topics."""
    VIEW_CONFIG = "view_config"
    """See its config, those of its tasks, and the traces of its errors."""
    EDIT = "edit"
    """Create, change and delete it, and validate configs."""
    OPERATE = "operate"
    """Pause, resume, stop and restart it."""
    OFFSETS = "offsets"
    """Read and alter its offsets."""
    ADMIN = "admin"
    """Set log levels, and drain the worker."""


_INCLUDED: Final = {
    Right.VIEW_CONFIG: {Right.VIEW},
    Right.EDIT: {Right.VIEW, Right.VIEW_CONFIG},
    Right.OPERATE: {Right.VIEW},
    Right.OFFSETS: {Right.VIEW},
}


class NamePattern:
    """A shell pattern for names: `*` any text, `?` any character, `[abc]` one of these; case-sensitive."""

    def __init__(self, text: str) -> None:
        self.matches_all = not text.strip("*")
        self._match = re.compile(fnmatch.translate(text)).match

    def matches(self, name: str) -> bool:
        """True if the whole name matches."""
        return self.matches_all or self._match(name) is not None


@dataclass(frozen=True)
class Rule:
    """One `[[rules]]` of the file."""

    who: frozenset[str]
    connectors: tuple[NamePattern, ...]
    rights: frozenset[Right]
    """The rights given, with those that they include."""


@dataclass(frozen=True)
class Grants:
    """The rights of one requester."""

    rules: tuple[Rule, ...]

    def may(self, right: Right, connector: str) -> bool:
        """True if the right is given for this connector."""
        return any(
            right in rule.rights and any(one.matches(connector) for one in rule.connectors) for rule in self.rules
        )

    def may_any(self, right: Right) -> bool:
        """True if the right is given for any connector."""
        return any(right in rule.rights for rule in self.rules)

    def may_all(self, right: Right) -> bool:
        """True if the right is given for every connector, by the pattern `*`."""
        return any(right in rule.rights and any(one.matches_all for one in rule.connectors) for rule in self.rules)


EVERYTHING: Final = Grants((Rule(frozenset({_EVERYBODY}), (NamePattern("*"),), frozenset(Right)),))
"""Everybody's rights if there is no file."""


@dataclass(frozen=True)
class Rights:
    """A rights file."""

    rules: tuple[Rule, ...]
    groups: Mapping[str, frozenset[str]]
    """The members of the file's groups."""

    @classmethod
    def read(cls, path: Path) -> Rights:
        """Reads a rights file. Errors: ConfigError with all problems, their lines and remedies."""
        try:
            with path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
            text = content.decode()
        except (OSError, ValueError) as error:
            remedy = "Let it be a text file in UTF-8 that the worker's user may read."
            raise ConfigError(Problem(RIGHTS_FILE, str(path), f"The file cannot be read: {error}.", remedy)) from None
        if len(content) > _MOST_BYTES:
            raise ConfigError(Problem(RIGHTS_FILE, str(path), f"It has more than {_MOST_BYTES} bytes.", "Shorten it."))
        return cls.parse(text, path)

    @classmethod
    def parse(cls, text: str, path: Path) -> Rights:
        """The rights in a file's text. Errors: as `read`."""
        try:
            given = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            remedy = "Each rule is [[rules]] with the lines who = [...], connectors = [...] and rights = [...]."
            raise ConfigError(Problem(RIGHTS_FILE, str(path), f"The file is no valid TOML: {error}.", remedy)) from None
        reading = _Reading(text, path)
        rights = reading.rights(given)
        if reading.problems:
            raise ConfigError(reading.problems, f"The rights file {path}" if len(reading.problems) > 1 else "")
        return rights

    def of(self, user: str, groups: Collection[str]) -> Grants:
        """The rights of a user; `groups` come from the login."""
        mine = {_EVERYBODY, f"user:{user}", *(f"group:{group}" for group in groups)}
        mine |= {f"group:{group}" for group, members in self.groups.items() if user in members}
        if user == ANONYMOUS:
            mine.add(ANONYMOUS)
        return Grants(tuple(rule for rule in self.rules if rule.who & mine))


class _Reading:
    def __init__(self, text: str, path: Path) -> None:
        self.problems: list[Problem] = []
        self._path = str(path)
        self._lines = text.splitlines()
        self._headers = [number for number, line in enumerate(self._lines) if _HEADER.match(line)]

    def rights(self, given: Mapping[str, Any]) -> Rights:
        self._unknown(given, _TOP, None)
        groups = given.get("groups", {})
        if not isinstance(groups, dict):
            self._problem(None, "groups is no table.", 'Write [groups], and lines such as operators = ["anna"].')
            groups = {}
        members = {name: frozenset(self._texts(None, name, given)) for name, given in groups.items()}
        rules = given.get("rules", [])
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            self._problem(None, "rules is no list of tables.", "Begin each rule with a line [[rules]].")
            rules = []
        elif not rules:
            remedy = "Add a rule that begins with [[rules]], or remove the setting, and everybody may do everything."
            self._problem(None, "The file has no rules, so that nobody could do anything.", remedy)
        return Rights(tuple(self._rule(number, rule) for number, rule in enumerate(rules)), members)

    def _rule(self, number: int, rule: Mapping[str, Any]) -> Rule:
        self._unknown(rule, _MEMBERS, number)
        who = list(self._texts(number, "who", rule.get("who")))
        for one in who:
            kind, _, name = one.partition(":")
            if one not in (_EVERYBODY, ANONYMOUS) and (kind not in ("user", "group") or not name):
                remedy = f'Write "user:NAME", "group:NAME", "{ANONYMOUS}" for who has no login, or "*" for everybody.'
                self._problem(number, f"who: {one!r} names nobody.", remedy, one)
        rights = frozenset(self._rights(number, rule.get("rights")))
        connectors: list[str] = []
        if "connectors" in rule or rights != {Right.ADMIN}:
            connectors = list(self._texts(number, "connectors", rule.get("connectors")))
        patterns = tuple(NamePattern(one) for one in connectors if self._is_pattern(number, one))
        if Right.ADMIN in rights and patterns and not any(one.matches_all for one in patterns):
            remedy = 'Give it in a rule of its own, which needs no connectors, or for connectors = ["*"].'
            self._problem(number, "rights: admin is of the whole worker, and not of some connectors.", remedy, "admin")
        return Rule(frozenset(who), patterns, rights.union(*(_INCLUDED.get(one, ()) for one in rights)))

    def _rights(self, number: int, given: Any) -> Iterator[Right]:
        for one in self._texts(number, "rights", given):
            try:
                yield Right(one)
            except ValueError:
                remedy = f"The rights are {', '.join(Right)}.{question(nearest(one, list(Right)))}"
                self._problem(number, f"rights: {one!r} is no right.", remedy, one)

    def _is_pattern(self, number: int, text: str) -> bool:
        if len(text) <= _LONGEST_PATTERN and text.count("*") <= _MOST_STARS:
            return True
        remedy = f"Let it have at most {_LONGEST_PATTERN} signs and {_MOST_STARS} stars."
        self._problem(number, f"connectors: the pattern {text[:50]!r} is too long.", remedy, text)
        return False

    def _texts(self, number: int | None, member: str, given: Any) -> Sequence[str]:
        if isinstance(given, list) and given and all(isinstance(one, str) and one for one in given):
            return given
        what = "is missing" if given is None else "is no list of texts"
        self._problem(number, f"{member} {what}.", f'Write {member} = ["...", "..."].', member)
        return ()

    def _unknown(self, given: Mapping[str, Any], known: Sequence[str], number: int | None) -> None:
        for key in given:
            if key not in known:
                remedy = f"There are {', '.join(known)}.{question(nearest(key, known))}"
                self._problem(number, f"{key!r} means nothing here.", remedy, key)

    def _problem(self, number: int | None, message: str, remedy: str, near: str = "") -> None:
        self.problems.append(Problem(RIGHTS_FILE, self._path, f"{self._place(number, near)}{message}", remedy))

    def _place(self, number: int | None, near: str) -> str:
        """The line of a text within a rule, or before the first rule."""
        begin, end = 0, len(self._lines)
        if number is not None:
            if number >= len(self._headers):
                return f"Rule {number + 1}: "  # no [[rules]] header, such as an inline list
            begin = self._headers[number]
            end = next((header for header in self._headers if header > begin), end)
        elif not near:
            return ""
        word = re.compile(rf"(?<!\w){re.escape(near)}(?!\w)")
        found = next((at for at in range(begin, end) if near and word.search(self._lines[at].partition("#")[0])), begin)
        return f"Line {found + 1}: "


def problems(values: Mapping[str, Any]) -> list[Problem]:
    """Problems of the rights file in these parsed settings."""
    path = values.get(RIGHTS_FILE)
    if path is None:
        return []
    try:
        Rights.read(Path(path))
    except ConfigError as error:
        return error.problems
    return []
