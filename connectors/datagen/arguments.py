"""The annotations of an Avro type, `arg.properties`, checked against what the type takes.

Errors: DataError, with the path to the type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeVar

from headrace.plugins.contracts import DataError

ANNOTATIONS: Final = "arg.properties"

_NUMBERS: Final = frozenset({"options", "iteration", "range"})
_TEXTS: Final = frozenset({"options", "length", "regex", "iteration", "prefix", "suffix"})
_TAKEN: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("int", "long", "float", "double"), _NUMBERS),
    "string": _TEXTS,
    "boolean": frozenset({"options", "odds", "iteration"}),
    "bytes": frozenset({"options", "length"}),
    "decimal": frozenset({"options", "range"}),
    "fixed": frozenset({"options"}),
    "enum": frozenset({"options"}),
    "array": frozenset({"options", "length"}),
    "map": frozenset({"options", "length", "keys"}),
    "record": frozenset({"options"}),
}
_ALONE: Final = ("options", "regex", "iteration", "range")
"""Of these a type has one at most."""

T = TypeVar("T")


class Arguments:
    """The annotations of one type."""

    def __init__(self, found: Any, kind: str, at: str) -> None:
        """`found`: its `arg.properties`, None if it has none. Errors: DataError."""
        self.at = at
        self._given: Mapping[str, Any] = {} if found is None else self._members(found, ANNOTATIONS, _TAKEN[kind])
        several = [name for name in _ALONE if name in self._given]
        if "length" in self._given and several:
            several.append("length")
        if len(several) > 1:
            raise self.fault(f"has {' and '.join(several)}, which exclude each other")

    def fault(self, text: str) -> DataError:
        """Return an error about this type."""
        return DataError(f"{self.at or 'The record'} {text}")

    def get(self, name: str) -> Any:
        """Return the annotation; None if it is not there."""
        return self._given.get(name)

    def bounds(self, name: str, known: Collection[str]) -> Mapping[str, Any] | None:
        """Return an annotation that is an object with these members; None if it is not there."""
        found = self._given.get(name)
        return None if found is None else self._members(found, name, known)

    def number(self, within: Mapping[str, Any], name: str, kind: Callable[[Any], T]) -> T | None:
        """Return a member that is a number, of type `kind`; None if it is not there."""
        found = within.get(name)
        if found is None:
            return None
        if (made := number_of(found, kind)) is None:
            raise self.fault(f"has {name}={found!r:.80}, which its type does not hold")
        return made

    def length(self, default: tuple[int, int] = (8, 15), most: int = 1 << 20) -> tuple[int, int]:
        """Return the least and the most length, both included."""
        found = self._given.get("length")
        if found is None:
            return default
        if isinstance(found, dict):
            within = self._members(found, "length", ("min", "max"))
            least, end = self.number(within, "min", int) or 0, self.number(within, "max", int)
            bounds = least, most if end is None else end - 1
        else:
            exact = self.number({"length": found}, "length", int) or 0
            bounds = exact, exact
        if not 0 <= bounds[0] <= bounds[1] <= most:
            raise self.fault(
                f"has length={found!r}; a length is from 0 to {most}, and its max, excluded, above its min"
            )
        return bounds

    def text(self, name: str) -> str:
        """Return an annotation that is a text; empty if it is not there."""
        found = self._given.get(name, "")
        if not isinstance(found, str):
            raise self.fault(f"has {name}={found!r:.80}, which is no text")
        if not is_unicode(found):
            raise self.fault(f"has {name}={found!r:.80}, which has half of a surrogate pair")
        return found

    def _members(self, found: Any, name: str, known: Collection[str]) -> Mapping[str, Any]:
        if not isinstance(found, dict):
            raise self.fault(f"has {name}={found!r:.60}, which is no object")
        if unknown := sorted(found.keys() - set(known)):
            taken = ", ".join(sorted(known))
            raise self.fault(f"has {unknown[0]} in {name}, where only {taken} are of use to its type")
        return found


def number_of(found: Any, kind: Callable[[Any], T]) -> T | None:
    """Return a number of JSON as a `kind`; None if it is no number, is not finite, or is another one as a `kind`."""
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    try:
        made = kind(found) if math.isfinite(found) else None
    except OverflowError:
        return None
    return made if made == found else None


def is_unicode(text: str) -> bool:
    """True unless the text has half of a surrogate pair, which JSON can write and UTF-8 cannot."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def bounded(arguments: Arguments, bounds: Any, kind: Any, limits: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return the min and the max of a range, by default the limits of the type. Errors: DataError."""
    low, high = arguments.number(bounds, "min", kind), arguments.number(bounds, "max", kind)
    least, end = limits
    if (low is not None and low < least) or (high is not None and high > end):
        raise arguments.fault(f"has the range {bounds}, beyond its type, which goes from {least} to {end}, excluded")
    return ordered(arguments, least if low is None else low, end if high is None else high)


def ordered(arguments: Arguments, least: Any, end: Any) -> tuple[Any, Any]:
    """Return the bounds of a range. Errors: DataError if nothing lies between them."""
    if least >= end:
        raise arguments.fault(f"has a range from {least} to {end}: its max, excluded, has to be above its min")
    return least, end
