"""Java's regular expressions, read as far as one must before a JVM compiles them, and what matches them replaced.

Spark's own functions take Java's expressions as they are. Here: faults of structure in Java's words, so that a config
is refused before a task starts; the groups that an expression has; `String.replaceFirst` as a Spark expression.

Decided: what this does not see (an unknown escape, a bad range in a class) fails when Spark compiles it; loses: such an
error comes when the task starts. `#` comments of the flag x are not told from what they comment out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.values import invalid

_NAMED: Final = re.compile(r"\?<([a-zA-Z][a-zA-Z0-9]*)>")
_GROUP_NAME: Final = re.compile(r"[a-zA-Z0-9]*")
_REACHES_THE_END: Final = re.compile(r"(?s)(?!.*(?:\||\(\?|\\Q|#))(?:.*[^\\])?\.[*+]\)?")
"""What matches a whole text by one of these is also found first in it: the last `.*` takes whatever is left."""


@dataclass
class JavaRegex:
    """A regular expression and its capturing groups.

    Errors: ValueError in Java's words.
    """

    pattern: str
    groups: int = 0
    names: dict[str, int] = field(default_factory=dict)
    _at: int = 0
    _open: int = 0
    _quoted: bool = False

    def __post_init__(self) -> None:
        begins = True
        while self._at < len(self.pattern):
            char = self.pattern[self._at]
            if begins and char in "*+?":
                raise self._fault(f"Dangling meta character '{char}'", self._at)
            begins = char in "(|"
            self._read(char)
        if self._open:
            raise self._fault("Unclosed group", len(self.pattern))

    @property
    def whole(self) -> str:
        """The expression that matches only whole texts."""
        return rf"\A(?:{self.pattern}{self._end_of_quote})\z"

    @property
    def _end_of_quote(self) -> str:
        return r"\E" if self._quoted else ""

    def _read(self, char: str) -> None:
        self._at += 1
        match char:
            case "\\":
                self._escape()
            case "[":
                self._class()
            case "(":
                self._group()
            case ")":
                self._open -= 1
                if self._open < 0:
                    raise self._fault("Unmatched closing ')'", self._at - 2)

    def _escape(self) -> None:
        if self._at == len(self.pattern):
            raise self._fault("Unexpected internal error", self._at)
        quote = self.pattern[self._at] == "Q"
        self._at += 1
        if quote:
            end = self.pattern.find(r"\E", self._at)
            self._quoted = end < 0
            self._at = len(self.pattern) if end < 0 else end + 2

    def _class(self) -> None:
        """A character class, in which a first `]` closes nothing, with those inside it."""
        self._at += self.pattern[self._at : self._at + 1] == "^"
        first = True
        while self._at < len(self.pattern):
            char = self.pattern[self._at]
            self._at += 1
            if char == "\\":
                self._escape()
            elif char == "[":
                self._class()
            elif char == "]" and not first:
                return
            first = False
        raise self._fault("Unclosed character class", len(self.pattern) - 1)

    def _group(self) -> None:
        self._open += 1
        named = _NAMED.match(self.pattern, self._at)
        if named is None and self.pattern.startswith("?", self._at):
            self._at += 1  # flags, a look around, or a group that captures nothing
            return
        self.groups += 1
        if named is not None:
            self._at = named.end()
            if named[1] in self.names:
                raise self._fault(f"Named capturing group <{named[1]}> is already defined", self._at - 1)
            self.names[named[1]] = self.groups

    def _fault(self, text: str, index: int) -> ValueError:
        near = f" near index {index}" if index >= 0 else ""
        mark = f"\n{' ' * index}^" if 0 <= index < len(self.pattern) else ""
        return ValueError(f"{text}{near}\n{self.pattern}{mark}")

    def replacement(self, text: str) -> list[str | int]:
        """The texts and the numbers of the groups that make up a replacement.

        Errors: ValueError in Java's words.
        """
        parts: list[str | int] = [""]
        at = 0
        while at < len(text):
            char = text[at]
            at += 1
            if char == "\\":
                if at == len(text):
                    raise ValueError("character to be escaped is missing")
                char = text[at]
                at += 1
            elif char == "$":
                group, at = self._reference(text, at)
                parts += [group, ""]
                continue
            parts[-1] = f"{parts[-1]}{char}"
        return [part for part in parts if part != ""]

    def _reference(self, text: str, at: int) -> tuple[int, int]:
        """The group that a `$` in front of this place names, and where the text goes on."""
        if at == len(text):
            raise ValueError("Illegal group reference: group index is missing")
        if text[at] == "{":
            return self._named_reference(text, at + 1)
        if not ("0" <= text[at] <= "9"):
            raise ValueError("Illegal group reference")
        group, at = int(text[at]), at + 1
        if group > self.groups:
            raise ValueError(f"No group {group}")
        # Further digits count as long as there is such a group.
        while at < len(text) and "0" <= text[at] <= "9" and group * 10 + int(text[at]) <= self.groups:
            group, at = group * 10 + int(text[at]), at + 1
        return group, at

    def _named_reference(self, text: str, at: int) -> tuple[int, int]:
        found = _GROUP_NAME.match(text, at)
        name = found[0] if found else ""
        end = at + len(name)
        if not name:
            raise ValueError("named capturing group has 0 length name")
        if not text.startswith("}", end):
            raise ValueError("named capturing group is missing trailing '}'")
        if name[0].isdigit():
            raise ValueError(f"capturing group name {{{name}}} starts with digit character")
        if name not in self.names:
            raise ValueError(f"No group with name {{{name}}}")
        return self.names[name], end + 1


def regex_problem(name: str, value: Any) -> str | None:
    """What is wrong with a setting that is a Java regular expression, in Connect's words."""
    if value is None:
        why = 'Cannot invoke "String.isEmpty()" because "this.pattern" is null'
        return invalid(name, value, f"Invalid regex: {why}")
    try:
        JavaRegex(value)
    except ValueError as error:
        return invalid(name, value, f"Invalid regex: {error}")
    return None


def matches(text: Column, regex: JavaRegex) -> Column:
    """Whether the whole text matches, as `Matcher.matches`."""
    return text.rlike(regex.whole)


def replaced(text: Column, regex: JavaRegex, replacement: str) -> Column:
    """A text that matches as a whole, with what matches first in it replaced, as `Matcher.replaceFirst`; others as is.

    The first match need not be the whole text: `t|topic` matches all of `topic`, but what it finds first is the `t`.

    Errors: ValueError as `JavaRegex.replacement`.
    """
    parts = regex.replacement(replacement)
    if _REACHES_THE_END.fullmatch(regex.pattern):
        return F.regexp_replace(text, regex.whole, replacement)
    found = F.regexp_extract(text, regex.pattern, 0)
    begin = F.regexp_instr(text, F.lit(regex.pattern))
    new = [F.lit(part) if isinstance(part, str) else F.regexp_extract(text, regex.pattern, part) for part in parts]
    before = F.substring(text, F.lit(1), begin - 1)
    after = F.substring(text, begin + F.length(found), F.length(text))
    return F.when(matches(text, regex), F.concat(before, *new, after)).otherwise(text)
