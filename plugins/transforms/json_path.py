"""JSON paths as Confluent's transforms take them: the part of Jayway's syntax that a row's columns can answer.

    $.a['b c'][0][*][?(@.d == 'x' && (@.e > 3 || !@.f) && @.g in ['y', 'z'] && @.h =~ /v.*/i)]

Decided: recursive descent, functions, slices, unions, and comparisons of two paths are refused where they stand,
because published configs do not use them and a wrong match loses records in silence; loses: such conditions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from headrace.config.values import invalid
from headrace.plugins.interop.java.regex import regex_problem


class Child(NamedTuple):
    """Step to a member of an object."""

    name: str


class Item(NamedTuple):
    """Step to an item of an array; negative: from its end."""

    position: int


@dataclass(frozen=True)
class Every:
    """Step to all members of an object, or all items of an array."""


class Matching(NamedTuple):
    """Step to the items of an array for which the test holds, or to an object itself."""

    test: Test


Step = Child | Item | Every | Matching


class Path(NamedTuple):
    """Steps from a value."""

    steps: tuple[Step, ...]
    from_root: bool = True

    @property
    def is_definite(self) -> bool:
        """True if it leads to at most one value."""
        return all(isinstance(step, Child | Item) for step in self.steps)


@dataclass(frozen=True)
class Number:
    """A number as it is written."""

    text: str


Literal = str | Number | bool | None


class Regex(NamedTuple):
    """A regular expression of Java, with its flags inside."""

    pattern: str


class Exists(NamedTuple):
    """True if the path leads to a value, also to null."""

    path: Path


class Compares(NamedTuple):
    """Comparison of a path's value."""

    path: Path
    operator: str
    to: Literal | Regex | tuple[Literal, ...]


class All(NamedTuple):
    """True if each test is."""

    tests: tuple[Test, ...]


class Some(NamedTuple):
    """True if one of the tests is."""

    tests: tuple[Test, ...]


class Not(NamedTuple):
    """True if the test is not."""

    test: Test


Test = Exists | Compares | All | Some | Not

_FLIPPED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FLAGS: Final = "idmsuxU"
_NAME: Final = re.compile(r"[^\s.\[\]()'\"=!<>&|,~*?@$]+")
_INDEX: Final = re.compile(r"-?[0-9]{1,9}")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])")
_WORD: Final = re.compile(r"[A-Za-z]+")
_OPERATOR: Final = re.compile(r"==|!=|<=|>=|=~|<|>|(?:in|IN|nin|NIN)\b")
_REGEX: Final = re.compile(r"/((?:[^/\\]|\\.)*)/([a-zA-Z]*)")
_STRING: Final = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_CONSTANTS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
_DEEPEST: Final = 50


def parsed(text: str) -> Path:
    """Parse a path. Errors: ValueError with the place of what is not understood."""
    return _Parser(text if text[:1] in ("$", "@") else f"$.{text}", len(text)).whole()


def path_problem(name: str, value: Any) -> str | None:
    """Return why a setting is no such path; None if it is one."""
    try:
        parsed(value or "")
    except ValueError as error:
        return invalid(name, value, str(error))
    return None


@dataclass
class _Parser:
    text: str
    given: int
    """Length of the text as it was written."""
    at: int = 0
    depth: int = 0

    def whole(self) -> Path:
        path = self.path()
        self._blanks()
        if self.at < len(self.text):
            if _OPERATOR.match(self.text, self.at):
                raise self._fault("a comparison has to stand in a filter, as in $[?(@.a == 'x')]")
            raise self._fault("the path ends here")
        return path

    def path(self) -> Path:
        from_root = self.text[self.at] == "$"
        self.at += 1
        steps: list[Step] = []
        while (char := self._char) in (".", "["):
            if self.text.startswith("..", self.at):
                raise self._fault("recursive descent is not supported: name the fields on the way")
            begin = "[" if self.text.startswith(".[", self.at) else char  # `$.[0]` is `$[0]`
            self.at = self.text.index(begin, self.at) + 1
            steps.append(self._bracketed() if begin == "[" else self._dotted())
        if self._char == "(":
            raise self._fault("functions are not supported")
        return Path(tuple(steps), from_root)

    def _dotted(self) -> Step:
        if self._take("*"):
            return Every()
        return Child(self._matched(_NAME, "a field's name")[0])

    def _bracketed(self) -> Step:
        self._blanks()
        if self._take("*"):
            step: Step = Every()
        elif self._take("?"):
            self._need("(")
            step = Matching(self._either())
            self._need(")")
        elif self._char in ("'", '"'):
            step = Child(self._string())
            if not step.name or {"'", '"'} <= set(step.name):
                raise self._fault("a name is not empty, and has quotes of one kind at most")
        else:
            step = Item(int(self._matched(_INDEX, "an index, a quoted name, * or ?(…)")[0]))
        self._blanks()
        if self._char in (":", ","):
            raise self._fault("slices and unions are not supported")
        self._need("]")
        return step

    def _either(self) -> Test:
        tests = [self._both()]
        while self._take("||"):
            tests.append(self._both())
        return tests[0] if len(tests) == 1 else Some(tuple(tests))

    def _both(self) -> Test:
        tests = [self._one()]
        while self._take("&&"):
            tests.append(self._one())
        return tests[0] if len(tests) == 1 else All(tuple(tests))

    def _one(self) -> Test:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise self._fault("the condition is nested too deeply")
        try:
            self._blanks()
            if self._char == "!" and not self.text.startswith("!=", self.at):
                self.at += 1
                return Not(self._one())
            if self._take("("):
                test = self._either()
                self._need(")")
                return test
            return self._comparison()
        finally:
            self.depth -= 1

    def _comparison(self) -> Test:
        if self._char in ("@", "$"):
            path = self._definite()
            if self._take_operator() is None:
                return Exists(path)
            return Compares(path, self.operator, self._operand())
        literal = self._literal()
        begin = self.at
        if self._take_operator() not in _FLIPPED:
            self.at = begin
            raise self._fault(f"expected one of {' '.join(_FLIPPED)}")
        self._blanks()
        if self._char not in ("@", "$"):
            raise self._fault("expected a path, as @.a")
        return Compares(self._definite(), _FLIPPED[self.operator], literal)

    operator: str = ""

    def _take_operator(self) -> str | None:
        self._blanks()
        found = _OPERATOR.match(self.text, self.at)
        if found is None:
            return None
        self.at, self.operator = found.end(), found[0].lower()
        return self.operator

    def _operand(self) -> Literal | Regex | tuple[Literal, ...]:
        self._blanks()
        if self.operator == "=~":
            return self._regex()
        if self.operator in ("in", "nin"):
            return self._list()
        if self._char in ("@", "$"):
            raise self._fault("two paths cannot be compared: one side has to be a value")
        return self._literal()

    def _definite(self) -> Path:
        begin = self.at
        path = self.path()
        if not path.is_definite:
            self.at = begin
            raise self._fault("a path in a filter leads to one value, without * and filters of its own")
        return path

    def _list(self) -> tuple[Literal, ...]:
        self._need("[")
        found: list[Literal] = []
        while not self._take("]"):
            if found:
                self._need(",")
            self._blanks()
            found.append(self._literal())
        return tuple(found)

    def _regex(self) -> Regex:
        found = self._matched(_REGEX, "a regular expression between /")
        if wrong := set(found[2]) - set(_FLAGS):
            raise self._fault(f"unknown flag {min(wrong)} of a regular expression")
        pattern = f"(?{found[2]}){found[1]}" if found[2] else found[1]
        if (wrong_regex := regex_problem("=~", pattern)) is not None:
            raise self._fault(wrong_regex)
        return Regex(pattern)

    def _literal(self) -> Literal:
        if self._char in ("'", '"'):
            return self._string()
        if (number := _NUMBER.match(self.text, self.at)) is not None:
            self.at = number.end()
            return Number(number[0])
        word = _WORD.match(self.text, self.at)
        if word is None or word[0] not in _CONSTANTS:
            raise self._fault("expected a value: a quoted text, a number, true, false or null")
        self.at = word.end()
        return _CONSTANTS[word[0]]

    def _string(self) -> str:
        found = self._matched(_STRING, "a quoted text")
        inside = found[1] if found[1] is not None else found[2]
        return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", _unescaped, inside, flags=re.DOTALL)

    @property
    def _char(self) -> str:
        return self.text[self.at : self.at + 1]

    def _blanks(self) -> None:
        while self._char.isspace():
            self.at += 1

    def _take(self, token: str) -> bool:
        self._blanks()
        if not self.text.startswith(token, self.at):
            return False
        self.at += len(token)
        return True

    def _need(self, token: str) -> None:
        if not self._take(token):
            raise self._fault(f"expected {token}")

    def _matched(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        found = pattern.match(self.text, self.at)
        if found is None:
            raise self._fault(f"expected {what}")
        self.at = found.end()
        return found

    def _fault(self, why: str) -> ValueError:
        place = max(1, self.at - (len(self.text) - self.given) + 1)
        rest = self.text[self.at : self.at + 20]
        where = f"at character {place}, before {rest!r}" if rest else "at its end"
        return ValueError(f"This JSON path is not supported {where}: {why}")


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)
