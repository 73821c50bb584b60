"""Checks of settings' values. A check returns Connect's sentence for a wrong value, None for a right one.

The text of a validator (`str`) describes right values, for remedies and the reference page.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headrace.config.name_regex import name_regex
from headrace.config.values import invalid, shown, trimmed

_LONGEST_NAME: Final = 1000
_CONTROLS: Final = ("Cc", "Zl", "Zp")
"""Unicode's categories of control characters and of line and paragraph separators."""
_BIDI: Final = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""Characters that change the direction of text: a name could look like another."""


class Validator(Protocol):
    """Judges a parsed value, null included."""

    def __call__(self, name: str, value: Any) -> str | None:
        """The error in Connect's words; None if there is none."""


@dataclass(frozen=True)
class Range:
    """A number within optional bounds; null is refused."""

    least: float | None = None
    most: float | None = None

    def __call__(self, name: str, value: Any) -> str | None:
        if value is None:
            return invalid(name, value, "Value must be non-null")
        if self.least is not None and value < self.least:
            return invalid(name, value, f"Value must be at least {self.least}")
        if self.most is not None and value > self.most:
            return invalid(name, value, f"Value must be no more than {self.most}")
        return None

    def __str__(self) -> str:
        if self.most is None:
            return f"a number of at least {self.least}"
        return f"a number from {self.least} to {self.most}"


@dataclass(frozen=True)
class ZeroOr:
    """0, or a number within bounds; null is accepted."""

    least: int
    most: int

    def __call__(self, name: str, value: Any) -> str | None:
        if value is None or value == 0 or self.least <= value <= self.most:
            return None
        return invalid(name, value, f"Value must be {self}")

    def __str__(self) -> str:
        return f"0, or from {self.least} to {self.most}"


@dataclass(frozen=True)
class OrNull:
    """Null, or a value that the inner validator accepts."""

    inner: Validator

    def __call__(self, name: str, value: Any) -> str | None:
        return None if value is None else self.inner(name, value)

    def __str__(self) -> str:
        return str(self.inner)


@dataclass(frozen=True, init=False)
class OneOf:
    """Exactly one of these texts."""

    choices: tuple[str, ...]

    def __init__(self, *choices: str) -> None:
        object.__setattr__(self, "choices", choices)

    def __call__(self, name: str, value: Any) -> str | None:
        if value in self.choices:
            return None
        return invalid(name, value, "String must be one of: " + ", ".join(self.choices))

    def __str__(self) -> str:
        return "one of " + ", ".join(choice or "(empty)" for choice in self.choices)


@dataclass(frozen=True, init=False)
class OneOfIgnoringCase:
    """One of these texts in any case; messages list them in upper case, in the order given."""

    choices: tuple[str, ...]

    def __init__(self, *choices: str) -> None:
        object.__setattr__(self, "choices", tuple(choice.upper() for choice in choices))

    def __call__(self, name: str, value: Any) -> str | None:
        if value is not None and value.upper() in self.choices:
            return None
        return invalid(name, value, "String must be one of (case insensitive): " + ", ".join(self.choices))

    def __str__(self) -> str:
        return "one of " + ", ".join(choice.lower() for choice in self.choices)


@dataclass(frozen=True)
class NonEmpty:
    """Null, or a text that is not empty."""

    def __call__(self, name: str, value: Any) -> str | None:
        return invalid(name, value, "String must be non-empty") if value == "" else None

    def __str__(self) -> str:
        return "a text that is not empty"


@dataclass(frozen=True)
class NonEmptyWithoutControlChars:
    """A connector's name: null, or a text that is not blank and has no control characters.

    Decided: at most 1,000 bytes; Apache sets no limit. A name is part of paths, group ids and the group protocol, where
    one of 32,768 bytes ends every assignment; loses: longer names of another cluster.
    Decided: Unicode's line ends and direction marks count as control characters; Apache has ASCII's and Latin 1's only.
    Logs and consoles show names; loses: names with such characters of another cluster.
    """

    def __call__(self, name: str, value: Any) -> str | None:
        if value is None:
            return None
        if not trimmed(value):
            return invalid(name, value, "String may not be empty")
        control = [str(ord(char)) for char in value if unicodedata.category(char) in _CONTROLS or char in _BIDI]
        if control:
            why = "String may not contain control sequences but had the following ASCII chars: " + ", ".join(control)
            return invalid(name, value, why)
        # A lone surrogate, which JSON can write, has no bytes in UTF-8.
        if any("\ud800" <= char <= "\udfff" for char in value):
            return invalid(name, ascii(value[:80]), "String must be valid Unicode")
        if (size := len(value.encode())) > _LONGEST_NAME:
            why = f"String may not be longer than {_LONGEST_NAME} bytes in UTF-8 but has {size}"
            return invalid(name, f"{value[:80]}…", why)
        return None

    def __str__(self) -> str:
        return f"a text that is not blank, without control characters, of {_LONGEST_NAME} bytes at most"


def name_objection(name: str | None) -> str | None:
    """The error if a connector's name begins or ends with a blank, visible or not; None if it is right.

    Settings are trimmed before their validators run, so this judges the name as it was given.
    """
    ends = {name[0], name[-1]} if name and trimmed(name) else set()
    if any(char.isspace() or unicodedata.category(char) == "Cf" for char in ends):
        return invalid("name", ascii(name)[:80], "String may not begin or end with blanks")
    return None


@dataclass(frozen=True)
class ListOf:
    """A list without duplicates and empty items; only items of `choices`, if any are given."""

    choices: tuple[str, ...] = ()
    empty: bool = True
    null: bool = False

    def __call__(self, name: str, value: Any) -> str | None:
        if value is None:
            return None if self.null else f"Configuration '{name}' values must not be null."
        if not value and not self.empty:
            wanted = shown(list(self.choices)) if self.choices else "any non-empty value"
            return f"Configuration '{name}' must not be empty. Valid values include: {wanted}"
        if len(set(value)) != len(value):
            return f"Configuration '{name}' values must not be duplicated."
        if "" in value:
            return f"Configuration '{name}' values must not be empty."
        wrong = [item for item in value if self.choices and item not in self.choices]
        return OneOf(*self.choices)(name, wrong[0]) if wrong else None

    def __str__(self) -> str:
        return "a comma-separated list" + (f" of {', '.join(self.choices)}" if self.choices else "")


@dataclass(frozen=True)
class UniqueAliases:
    """A list without duplicate aliases."""

    def __call__(self, name: str, value: Any) -> str | None:
        if value is not None and len(set(value)) != len(value):
            return invalid(name, value, "Duplicate alias provided.")
        return None

    def __str__(self) -> str:
        return "a comma-separated list of different names"


@dataclass(frozen=True)
class Regex:
    """A regular expression for names."""

    def __call__(self, name: str, value: Any) -> str | None:
        if value is None:  # in Java's words
            why = 'Invalid regex: Cannot invoke "String.isEmpty()" because "this.pattern" is null'
            return invalid(name, value, why)
        try:
            name_regex(value)
        except ValueError as e:
            return invalid(name, value, f"Invalid regex: {e}")
        return None

    def __str__(self) -> str:
        return "a regular expression"


@dataclass(frozen=True)
class PositiveOrBrokers:
    """A positive number, or -1 for the broker's default; `must` begins the message."""

    must: str

    def __call__(self, name: str, value: Any) -> str | None:
        if value is not None and (value > 0 or value == -1):
            return None
        return invalid(name, value, f"{self.must}, or -1 to use the broker's default")

    def __str__(self) -> str:
        return "a positive number, or -1 for the broker's default"


@dataclass(frozen=True)
class Check:
    """A check by a function, which returns the error or None."""

    rule: Callable[[str, Any], str | None]
    wants: str

    def __call__(self, name: str, value: Any) -> str | None:
        return self.rule(name, value)

    def __str__(self) -> str:
        return self.wants


@dataclass(frozen=True, init=False)
class All:
    """All of these checks; the first error counts."""

    parts: tuple[Validator, ...]

    def __init__(self, *parts: Validator) -> None:
        object.__setattr__(self, "parts", parts)

    def __call__(self, name: str, value: Any) -> str | None:
        return next((text for part in self.parts if (text := part(name, value)) is not None), None)

    def __str__(self) -> str:
        return ", ".join(map(str, self.parts))


@dataclass(frozen=True)
class Embedded:
    """The validator of a prefixed setting; as in Java its messages have the name without prefix."""

    prefix: str
    inner: Validator

    def __call__(self, name: str, value: Any) -> str | None:
        return self.inner(name.removeprefix(self.prefix), value)

    def __str__(self) -> str:
        return str(self.inner)
