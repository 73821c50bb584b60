"""Promises of the contracts: a test that fails says which one was broken, and shows both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

_SHOWN: Final = 10
_WIDTH: Final = 70


def broken(promise: str, *found: str) -> NoReturn:
    """Fail, with the promise that was broken and what was found."""
    __tracebackhide__ = True
    raise AssertionError("\n  ".join([f"broken promise: {promise}", *found]))


def holds(condition: object, promise: str, *found: str) -> None:
    """Fail unless the condition is true."""
    __tracebackhide__ = True
    if not condition:
        broken(promise, *found)


@contextmanager
def keeping(promise: str) -> Iterator[None]:
    """Fail if the block raises."""
    __tracebackhide__ = True
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(f"broken promise: {promise}\n  it raised {error!r}") from error


def same(found: Any, wanted: Any, promise: str) -> None:
    """Fail, showing both sides, unless they are equal."""
    __tracebackhide__ = True
    if isinstance(found, Sequence) and isinstance(wanted, Sequence) and not isinstance(wanted, str | bytes):
        if list(found) != list(wanted):
            broken(promise, *differences(list(found), list(wanted)))
    elif found != wanted:
        broken(promise, f"expected: {_one(wanted)}", f"found:    {_one(found)}")


def differences(found: Sequence[Any], wanted: Sequence[Any]) -> list[str]:
    """Return what is missing, what is too much, and the first place that differs."""
    have, want = Counter(map(repr, found)), Counter(map(repr, wanted))
    lines = [f"expected {len(wanted)}: {_some(map(repr, wanted))}", f"found    {len(found)}: {_some(map(repr, found))}"]
    if lost := want - have:
        lines.append(f"missing  {lost.total()}: {_some(lost.elements())}")
    if extra := have - want:
        lines.append(f"too much {extra.total()}: {_some(extra.elements())}")
    for number, (one, other) in enumerate(zip(found, wanted, strict=False)):
        if one != other:
            lines.append(f"first difference at index {number}: expected {_one(other)}, found {_one(one)}")
            break
    return lines


def _some(texts: Iterable[str]) -> str:
    several = list(texts)
    shown = ", ".join(text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…" for text in several[:_SHOWN])
    return shown + (f", … ({len(several) - _SHOWN} more)" if len(several) > _SHOWN else "")


def _one(value: Any) -> str:
    return _some([repr(value)])
