"""Reads settings' texts and writes their values as Connect does."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

HIDDEN: Final = "[hidden]"

_SECRET: Final = re.compile(
    r"user\.info$|password|passphrase|secret|token(?!\.endpoint)|jaas|credential|private.?key|keystore\.key"
    r"|(account|master|sas).?key|storage.access.?key(?!.?id)",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(r"://\S*@")
_QUERY: Final = re.compile(r"(://[^\s?#]*[?#])\S+")
_COMMON: Final = re.compile(r"true|false|null|none|\d{1,5}", re.IGNORECASE)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?|[+-]?(NaN|Infinity)")

_BLANK: Final = "".join(map(chr, range(0x21)))
_BITS: Final = {"SHORT": 16, "INT": 32, "LONG": 64}

ClassNames = Callable[[str], str | None]
"""Maps a class name or alias to the full Java class name; None if it is unknown."""


class Type(StrEnum):
    """The type of a setting, by Connect's name."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


@dataclass(frozen=True)
class Password:
    """A secret; only `value` shows it, `str` and `repr` do not."""

    value: str

    def __str__(self) -> str:
        return HIDDEN

    def __repr__(self) -> str:
        return f"Password({HIDDEN})"


def looks_secret(name: str) -> bool:
    """True if an undeclared key is named like a secret; used for masking only."""
    return _SECRET.search(name) is not None


def without_login(text: str) -> str:
    """The text with user, password and query of its URLs hidden; hides too much rather than too little."""
    return _QUERY.sub(rf"\1{HIDDEN}", _LOGIN.sub(f"://{HIDDEN}@", text))


def telling(secret: str) -> list[str]:
    """The lines of a secret that must not be shown; a file's text may be quoted without its line ends.

    Switches, small numbers and lines of up to three characters are left out: they tell nothing, and logs in which they
    are hidden everywhere are unreadable.
    """
    lines = (line.strip() for line in secret.splitlines())
    return [line for line in lines if len(line) > 3 and not _COMMON.fullmatch(line)]


def invalid(name: str, value: Any, why: str | None = None) -> str:
    """Connect's sentence to refuse a value."""
    text = f"Invalid value {shown(value)} for configuration {name}"
    return f"{text}: {why}" if why else text


def shown(value: Any) -> str:
    """A value as Java prints it within a message: `[a, b]`, `null`, `true`."""
    if isinstance(value, list):
        return "[" + ", ".join(shown(item) for item in value) + "]"
    return "null" if value is None else as_text(value) or ""


def as_text(value: Any) -> str | None:
    """A value as REST answers show it: lists joined by commas, secrets hidden, null as None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(shown(item) for item in value)
    return str(value)


def trimmed(text: str) -> str:
    """Java's `String.trim`: cuts only characters up to the blank (U+0020), so NBSP and the like stay."""
    return text.strip(_BLANK)


def read(name: str, type_: Type, raw: Any, classes: ClassNames | None = None) -> Any:
    """The value of a text; values that are not text, null included, are returned unchanged.

    Errors: ValueError with Connect's sentence.
    """
    if not isinstance(raw, str):
        return raw
    text = trimmed(raw)
    if type_ is Type.PASSWORD:
        return Password(raw)
    if type_ is Type.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise ValueError(invalid(name, raw, "Expected value to be either true or false"))
        return text.lower() == "true"
    if type_ in (Type.INT, Type.SHORT, Type.LONG):
        return _integer(name, type_, raw, text)
    if type_ is Type.DOUBLE:
        if not _DECIMAL.fullmatch(text):
            raise ValueError(invalid(name, raw, f"Not a number of type {type_}"))
        return float(text.rstrip("dDfF") if text[-1] in "dDfF" else text)
    if type_ is Type.LIST:
        return [trimmed(item) for item in text.split(",")] if text else []
    if type_ is Type.CLASS and classes is not None:
        full = classes(text)
        if full is None:
            raise ValueError(invalid(name, raw, f"Class {text} could not be found."))
        return full
    return text


def _integer(name: str, type_: Type, raw: str, text: str) -> int:
    half = 1 << (_BITS[type_] - 1)
    if not _INTEGER.fullmatch(text) or len(text) > 20 or not -half <= int(text) < half:
        raise ValueError(invalid(name, raw, f"Not a number of type {type_}"))
    return int(text)
