"""Java's regular expressions for names of topics, tables and files, matched in bounded time.

    NameRegex(r"orders-(?!test)\\d++").match("orders-17")

Decided: the module `regex` and not Python's `re`, because `re` holds the interpreter during a match, and `(a+)+b` may
take for ever. `regex` lets other threads run, has a timeout, and has Java's possessive quantifiers, atomic groups and
nested classes. RE2 has no look-ahead, which topics.regex often uses; the JVM's matcher cannot be interrupted; loses:
`\\G`, `\\R`, `\\X`, `\\c`, `\\N`, flags d and U, which no name needs and which are refused.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import regex

from headrace.config.problems import ConfigError, Problem

SECONDS: Final = 1.0
"""The timeout of matching one name."""
_LONGEST: Final = 4000
_MOST_REPEATS: Final = 10_000

_FLAGS: Final = regex.VERSION1 | regex.ASCII
_COUNT: Final = regex.compile(r"\{(\d{1,9})(,(\d{0,9}))?\}")
_GROUP: Final = regex.compile(r"\?(?::|=|!|>|<=|<!|<[a-zA-Z][a-zA-Z0-9]*>|[imsux]*(?:-[imsux]+)?[:)])")
_KEPT: Final = frozenset("bBAdDsSwWtnrfa123456789")
_WRITTEN: Final = {"h": r"[ \t\xa0]", "e": r"\x1b", "z": r"\Z", "Z": r"\n?\Z", "v": r"[\n\x0b\f\r]"}
_CODE: Final = regex.compile(r"u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,6})\}")
_PROPERTY: Final = regex.compile(r"[pP](?:[A-Z]|\{\^?\w+\})")


class TooSlowError(ConfigError):
    """An expression exceeded the timeout on a name."""


class NameRegex:
    """An expression to match whole names; any thread may use it."""

    def __init__(self, pattern: str) -> None:
        """Errors: ValueError if Java would refuse the expression, or if it is not supported."""
        self.pattern = pattern
        try:
            self._compiled = regex.compile(_Translation(pattern).text, _FLAGS)
        except (regex.error, RecursionError, OverflowError) as error:
            unclosed = isinstance(error, regex.error) and error.msg == "missing )"
            raise ValueError(
                f"Unclosed group near index {len(pattern)}\n{pattern}" if unclosed else str(error)
            ) from None

    @property
    def groups(self) -> int:
        """The number of capturing groups."""
        return int(self._compiled.groups)

    def match(self, name: str) -> regex.Match[str] | None:
        """The match of the whole name, None if it does not match. Errors: TooSlowError."""
        try:
            return self._compiled.fullmatch(name, timeout=SECONDS, concurrent=True)
        except TimeoutError:
            text = f"the regular expression takes longer than {SECONDS:g} s on the name {name!r}"
            remedy = "Write it without a repetition of what is repeated or optional itself, such as (a+)+."
            raise TooSlowError(Problem("regular expression", self.pattern, text, remedy)) from None


@lru_cache(1000)
def name_regex(pattern: str) -> NameRegex:
    """The compiled expression, cached. Errors: ValueError."""
    return NameRegex(pattern)


class _Translation:
    """Translates Java's expression for the module `regex`. Errors: ValueError."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > _LONGEST:
            raise ValueError(f"it has more than {_LONGEST} characters")
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        self._sizes = [0]
        """The least length of each open group, outermost first: characters times their least counts."""
        self._depths = [1]
        """The greatest product of nested counts in each open group."""
        self._atom = 1, 1
        """Size and product of the last atom, which a count would repeat."""
        self._product = 1
        """The product of all counts so far."""
        self._verbose = False
        while self._at < len(pattern):
            self._read(pattern[self._at])
        self.text = "".join(self._out)

    def _read(self, char: str) -> None:
        self._at += 1
        atom, self._atom = self._atom, (1, 1)
        if char not in "(){":
            self._add(1, 1)
        match char:
            case "\\":
                self._escape()
            case "[":
                self._class()
            case "(" if self._pattern[self._at : self._at + 1] in ("?", "*"):
                self._group()
            case "(":
                self._open()
            case ")" if len(self._sizes) > 1:
                self._close()
            case "{":
                self._count(*atom)
            case _:
                self._out.append(char)

    def _group(self) -> None:
        found = _GROUP.match(self._pattern, self._at)
        if found is None:
            raise self._fault("Unknown group")
        self._verbose = self._verbose or (found[0][-1] in ":)" and "x" in found[0].partition("-")[0])
        self._at = found.end()
        if found[0].endswith(")"):  # flags for what follows
            self._out.append(f"({found[0]}")
        else:
            self._open(found[0])

    def _open(self, kind: str = "") -> None:
        self._out.append(f"({kind}")
        self._sizes.append(0)
        self._depths.append(1)

    def _close(self) -> None:
        self._out.append(")")
        self._atom = self._sizes.pop(), self._depths.pop()
        self._add(*self._atom)

    def _add(self, size: int, depth: int) -> None:
        self._sizes[-1] += size
        self._depths[-1] = max(self._depths[-1], depth)

    def _count(self, size: int, depth: int) -> None:
        """Takes a count of an atom of this size and depth; nested counts multiply, because `regex` unrolls them."""
        found = _COUNT.match(self._pattern, self._at - 1)
        if found is None:
            raise self._fault("Illegal repetition")
        least, most = int(found[1]), max(1, int(found[3] or found[1]))
        if self._verbose:  # comments and blanks hide the nesting: all counts are taken as nested
            depth = self._product
        self._product *= most
        self._add(size * max(0, least - 1), depth * most)
        if sum(self._sizes) > _MOST_REPEATS or (depth > 1 and depth * most > _MOST_REPEATS):
            raise self._fault(f"Its repetitions come to more than {_MOST_REPEATS}")
        self._out.append(found[0])
        self._at = found.end()

    def _class(self) -> None:
        self._out.append("[")
        if self._pattern[self._at : self._at + 1] == "^":
            self._out.append("^")
            self._at += 1
        first = True
        while self._at < len(self._pattern):
            char = self._pattern[self._at]
            self._at += 1
            if char == "]" and not first:
                self._out.append("]")
                return
            if char == "\\":
                self._escape()
            elif char == "[":
                self._class()
            elif char == "-" and self._pattern[self._at : self._at + 1] == "-":
                raise self._fault("-- in a class is not served: escape one of them")
            else:
                self._out.append(rf"\{char}" if char in "|~]" else char)
            first = False
        raise self._fault("Unclosed character class")

    def _escape(self) -> None:
        char = self._pattern[self._at : self._at + 1]
        if not char:
            raise self._fault("A backslash ends it")
        if char == "Q":
            end = self._pattern.find(r"\E", self._at)
            end = len(self._pattern) if end < 0 else end
            self._out.append(regex.escape(self._pattern[self._at + 1 : end], special_only=False))
            self._at = end + 2
            return
        if char == "k":
            found = regex.compile(r"k<([a-zA-Z][a-zA-Z0-9]*)>").match(self._pattern, self._at)
            written = None if found is None else f"(?P={found[1]})"
        elif found := _CODE.match(self._pattern, self._at):
            written = regex.escape(chr(int(found[1] or found[2] or found[3], 16)), special_only=False)
        elif found := _PROPERTY.match(self._pattern, self._at):
            written = f"\\{found[0]}"
        else:
            written = f"\\{char}" if char in _KEPT or not char.isalnum() else _WRITTEN.get(char)
            found = None
        if written is None:
            raise self._fault(f"Illegal/unsupported escape sequence \\{char}")
        self._out.append(written)
        self._at = self._at + 1 if found is None else found.end()

    def _fault(self, what: str) -> ValueError:
        return ValueError(f"{what} near index {self._at}")
