"""The requester of a change: REST and the command line name it, and the history keeps it.

It travels with the context, so that whatever writes a change knows it; `as_asked` takes it to the deciding thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Requester:
    """The name that logged in, and the address or the place that the request came from."""

    by: str | None
    origin: str


_requester: ContextVar[Requester | None] = ContextVar("requester", default=None)


def requester() -> Requester | None:
    """Return the requester of the current change; None if nobody asked for it."""
    return _requester.get()


def set_requester(who: Requester) -> None:
    """Name the requester of all that follows in this context."""
    _requester.set(who)


@contextmanager
def asked_by(who: Requester) -> Iterator[None]:
    """Name the requester of what is done inside."""
    before = _requester.set(who)
    try:
        yield
    finally:
        _requester.reset(before)


def as_asked(act: Callable[[], T]) -> Callable[[], T]:
    """Return `act` for another thread, with the present context."""
    return partial(copy_context().run, act)
