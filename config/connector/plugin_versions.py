"""Chooses a plugin's version for a config: Maven's ranges and order of versions, as in Connect.

Source: Maven's POM reference on ranges and on the order of versions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cmp_to_key
from itertools import zip_longest
from typing import Any, Final, Protocol, TypeVar, cast

_ONE_RANGE: Final = r"[\[(][^\[\]()]*[\])]"
_RANGES: Final = re.compile(rf"{_ONE_RANGE}(?:\s*,\s*{_ONE_RANGE})*")
_PARTS: Final = re.compile(r"[._-]|\d+|[^\d._-]+")
_QUALIFIERS: Final = ("alpha", "beta", "milestone", "rc", "snapshot", "", "sp")
"""The first qualifiers, in order; all others follow alphabetically."""
_SAME: Final = {"final": "", "ga": "", "release": "", "cr": "rc"}
_SHORT: Final = {"a": "alpha", "b": "beta", "m": "milestone"}
"""Abbreviations, if a number follows at once."""

_Token = tuple[str, str]
"""The sign before a number or qualifier, and the number or qualifier."""


class Versioned(Protocol):
    """A plugin in one version."""

    @property
    def version(self) -> str | None:
        """The plugin's version; None if it reports none."""

    @property
    def versions(self) -> Sequence[Any]:
        """The plugin in all versions, in their order; this one is among them."""


V = TypeVar("V", bound=Versioned)


def of_version(plugin: V, wanted: str | None) -> V | None:
    """The latest version in a range, such as `[4.0,5.0)`, `4.3.1` or `latest`; None if none is in it or it is no range.

    `plugin` is the latest version, which is returned for None and `latest`.
    """
    spec = range_of(wanted)
    if spec is None:
        return plugin
    if why_no_range(wanted) is not None:
        return None
    found = [one for one in plugin.versions if is_within(spec, one.version or "")]
    return cast(V, found[-1]) if found else None


def range_of(wanted: str | None) -> str | None:
    """The range that a setting means, a lone version as a range of that version; None: the latest."""
    if wanted is None or wanted.strip().lower() == "latest":
        return None
    text = wanted.strip()
    return text if _RANGES.fullmatch(text) else f"[{text or ','}{',' + text if text else ''}]"


def why_no_range(wanted: str | None) -> str | None:
    """The fault of a malformed range; None for a range, or a version even if it does not exist."""
    text = (wanted or "").strip()
    if not any(sign in text for sign in "[](),"):
        return None
    if not _RANGES.fullmatch(text):
        return "ranges are written like [4.0,5.0), several with commas between them"
    for one in re.findall(_ONE_RANGE, text):
        low, *high = (part.strip() for part in one[1:-1].split(","))
        if not high and (not low or (one[0], one[-1]) != ("[", "]")):
            return f"{one} is to be a single version, which is written like [4.0]"
        if len(high) > 1:
            return f"{one} has more than two versions"
        if high and low and high[0] and compared(low, high[0]) > 0:
            return f"{one} ends before it begins"
    return None


def is_within(spec: str, version: str) -> bool:
    """True if a version is in one of these ranges; `[,]`, the range of an empty text, has none."""
    return spec != "[,]" and any(_is_in(one, version) for one in re.findall(_ONE_RANGE, spec))


def _is_in(one_range: str, version: str) -> bool:
    low, comma, high = (part.strip() for part in one_range[1:-1].partition(","))
    high = high if comma else low
    above, below = (compared(version, low) if low else 1), (compared(version, high) if high else -1)
    return (above > 0 or (above == 0 and one_range[0] == "[")) and (below < 0 or (below == 0 and one_range[-1] == "]"))


def compared(one: str, other: str) -> int:
    """-1, 0 or 1 by the order of versions: `1.0.Beta1`, `1.0.CR1`, `1.0` and `1.0.Final`, `1.0.1`."""
    for mine, others in zip_longest(_trimmed(one), _trimmed(other)):
        first, second = _rank(mine or _nothing(others)), _rank(others or _nothing(mine))
        if first != second:
            return -1 if first < second else 1
    return 0


def is_prerelease(version: str) -> bool:
    """True for versions before a release: alpha, beta, milestone, candidate, snapshot."""
    return any(token in _QUALIFIERS[:5] for _, token in _tokens(version))


BY_VERSION: Final = cmp_to_key(compared)
"""Sort key for versions."""


def _trimmed(version: str) -> list[_Token]:
    """The tokens without null values (0, "") at the end of the version and before hyphens."""
    kept: list[_Token] = []
    is_end = True
    for sign, token in reversed(list(_tokens(version))):
        if not is_end or token not in ("0", ""):
            kept.append((sign, token))
            is_end = sign == "-"
    return kept[::-1]


def _tokens(version: str) -> Iterator[_Token]:
    sign, is_open = ".", True
    parts = _PARTS.findall(version.lower())
    for part, after in zip_longest(parts, parts[1:], fillvalue=""):
        if part in "._-":
            if is_open:
                yield sign, "0"
            sign, is_open = "." if part == "." else "-", True
            continue
        if not is_open:
            sign = "-"  # from digits to letters, or back
        if part.isdecimal():
            yield sign, part.lstrip("0") or "0"
        else:
            # A dot before a qualifier is a hyphen to Maven, so that 1.0.CR1 and 1-CR1 are the same.
            yield "-", _SHORT.get(part, part) if after.isdecimal() and part in _SHORT else _SAME.get(part, part)
        is_open = False


def _nothing(beside: _Token | None) -> _Token:
    return (".", "0") if beside is not None and beside[0] == "." else ("-", "")


def _rank(token: _Token) -> tuple[int, int, str]:
    sign, text = token
    if text.isdecimal():
        return (2 if sign == "." else 1), int(text), ""
    return 0, _QUALIFIERS.index(text) if text in _QUALIFIERS else len(_QUALIFIERS), text
