"""Times printed by the letters of Joda's DateTimeFormat, in which `path.format` is written.

They are not those of Java or Python: `YYYY` is the year of the era (the week's year is `xxxx`), `DD` the day of the
year. Names of days and months are those of the JVM in the locale, fetched once (`Words`), because then they are Joda's
own and executors, which have no JVM at hand, print them alike.

Decided: `z`, the name of a time zone, is refused, because `Z` and `ZZZ` say the same without a language; loses: it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

LETTERS: Final = "GCYxwyDeEMdaKhHkmsSZ"
"""The letters of a pattern."""
_TEXTS: Final = "GEMa"


@dataclass(frozen=True)
class Words:
    """Names in one language; weeks begin with Monday."""

    months: tuple[str, ...]
    short_months: tuple[str, ...]
    weekdays: tuple[str, ...]
    short_weekdays: tuple[str, ...]
    halves: tuple[str, ...]
    """The halves of the day: AM, PM."""
    eras: tuple[str, ...]


def words_of(jvm: Any, locale: str) -> Words:
    """The names of a locale such as `en-US`, as Java has them."""
    symbols = jvm.java.text.DateFormatSymbols.getInstance(jvm.java.util.Locale.forLanguageTag(locale.replace("_", "-")))

    def days(names: Any) -> tuple[str, ...]:
        sunday, *others = list(names)[1:]
        return (*others, sunday)

    return Words(
        months=tuple(symbols.getMonths())[:12],
        short_months=tuple(symbols.getShortMonths())[:12],
        weekdays=days(symbols.getWeekdays()),
        short_weekdays=days(symbols.getShortWeekdays()),
        halves=tuple(symbols.getAmPmStrings()),
        eras=tuple(symbols.getEras()),
    )


class JodaPattern:
    """A pattern, parsed once.

    Errors: ValueError, in Joda's words, for a letter without meaning and for a pattern that prints nothing.
    """

    def __init__(self, pattern: str) -> None:
        self._tokens = [token for token in _tokens(pattern) if token[1]]
        if not self._tokens:
            raise ValueError("Invalid pattern specification")
        for is_literal, text in self._tokens:
            if not is_literal and text[0] not in LETTERS:
                raise ValueError(f"Illegal pattern component: {text}")

    @property
    def needs_words(self) -> bool:
        """True if it prints names."""
        return any(not literal and text[0] in _TEXTS and _is_text(text) for literal, text in self._tokens)

    @property
    def parts(self) -> list[list[tuple[bool, str]]]:
        """Its tokens (literal or letters) between slashes."""
        found: list[list[tuple[bool, str]]] = [[]]
        for is_literal, text in self._tokens:
            if not is_literal:
                found[-1].append((False, text))
                continue
            first, *others = text.split("/")
            found[-1].append((True, first))
            found += [[(True, other)] for other in others]
        return found

    def text(self, local: datetime, zone_id: str, words: Words | None) -> str:
        """Prints a time with its zone; `words` are given if it `needs_words`."""
        return "".join(
            text if is_literal else _printed(text, local, zone_id, words) for is_literal, text in self._tokens
        )


def _tokens(pattern: str) -> list[tuple[bool, str]]:
    """Runs of one letter, and the literal texts between them."""
    tokens, at = [], 0
    while at < len(pattern):
        if _is_letter(pattern[at]):
            end = at
            while end < len(pattern) and pattern[end] == pattern[at]:
                end += 1
            tokens.append((False, pattern[at:end]))
            at = end
        else:
            text, at = _literal(pattern, at)
            tokens.append((True, text))
    return tokens


def _literal(pattern: str, at: int) -> tuple[str, int]:
    """The literal text that begins here, without its quotes, and its end; the last quote need not be closed."""
    text, quoted = "", False
    while at < len(pattern):
        sign = pattern[at]
        if sign == "'":
            if pattern[at + 1 : at + 2] == "'":
                text += "'"
                at += 1
            else:
                quoted = not quoted
        elif not quoted and _is_letter(sign):
            break
        else:
            text += sign
        at += 1
    return text, at


def _is_letter(sign: str) -> bool:
    return sign.isascii() and sign.isalpha()


def _is_text(token: str) -> bool:
    return token[0] != "M" or len(token) > 2


def _printed(token: str, local: datetime, zone_id: str, words: Words | None) -> str:
    letter, width = token[0], len(token)
    if letter == "Z":
        return zone_id if width > 2 else _offset(local, ":" if width == 2 else "")
    if letter in _TEXTS and _is_text(token):
        assert words is not None, "a pattern with names of days or months needs them"
        return _name(letter, width, local, words)
    number = _number(letter, local)
    if letter == "S":
        return str(local.microsecond // 1000 * 10**width // 1000).zfill(width)
    if letter in "xyY" and width == 2:
        number %= 100
    return str(number).zfill(width)


def _name(letter: str, width: int, local: datetime, words: Words) -> str:
    match letter:
        case "M":
            return (words.months if width > 3 else words.short_months)[local.month - 1]
        case "E":
            return (words.weekdays if width > 3 else words.short_weekdays)[local.weekday()]
        case "a":
            return words.halves[local.hour // 12]
    return words.eras[1]


def _number(letter: str, local: datetime) -> int:
    match letter:
        case "C":
            return local.year // 100
        case "Y" | "y":
            return local.year
        case "x":
            return local.isocalendar().year
        case "w":
            return local.isocalendar().week
        case "D":
            return local.timetuple().tm_yday
        case "e":
            return local.isoweekday()
        case "M":
            return local.month
        case "d":
            return local.day
        case "K":
            return local.hour % 12
        case "h":
            return local.hour % 12 or 12
        case "H":
            return local.hour
        case "k":
            return local.hour or 24
        case "m":
            return local.minute
    return local.second


def _offset(local: datetime, between: str) -> str:
    offset = local.utcoffset()
    assert offset is not None
    minutes = abs(int(offset.total_seconds())) // 60
    return f"{'-' if offset.total_seconds() < 0 else '+'}{minutes // 60:02}{between}{minutes % 60:02}"
