"""Finds the redactions, of very many, with a secret in a text, without trying each of them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

_BEGINNING: Final = 4
_FEWEST: Final = 1_000

T = TypeVar("T")


class SecretIndex(Generic[T]):
    """Owners of secrets by the secrets' forms; any thread may call. It keeps no owner in use.

    Decided: by the first characters of each form, because a log line is short and the secrets of two thousand
    connectors are not; loses: an ended owner's forms are forgotten only once half of them ended.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forms: dict[str, dict[str, dict[Hashable, list[weakref.ref[T]]]]] = {}
        self._sizes: set[int] = set()
        self._entries = 0
        self._bound = _FEWEST

    def add(self, owner: T, alike: Hashable, forms: Iterable[str]) -> None:
        """Note this owner for each form of a secret. Of owners with equal `alike`, `find` returns one."""
        with self._lock:
            for form in filter(None, forms):
                self._sizes.add(min(len(form), _BEGINNING))
                groups = self._forms.setdefault(form[:_BEGINNING], {}).setdefault(form, {})
                groups.setdefault(alike, []).append(weakref.ref(owner))
                self._entries += 1
            if self._entries > self._bound:
                self._forget()

    def find(self, text: str) -> list[T]:
        """The owners of secrets in the text, each once, that of the longest first."""
        found: list[tuple[int, T]] = []
        with self._lock:
            for start in {text[at : at + size] for size in self._sizes for at in range(len(text))}:
                for form, groups in self._forms.get(start, {}).items():
                    if form in text:
                        owners = (_first(group) for group in groups.values())
                        found += [(len(form), owner) for owner in owners if owner is not None]
        found.sort(key=lambda one: -one[0])
        return list({id(owner): owner for _, owner in found}.values())

    def _forget(self) -> None:
        self._entries = 0
        for start, forms in list(self._forms.items()):
            for form, groups in list(forms.items()):
                for alike, owners in list(groups.items()):
                    groups[alike] = [owner for owner in owners if owner() is not None]
                    self._entries += len(groups[alike])
                    if not groups[alike]:
                        del groups[alike]
                if not groups:
                    del forms[form]
            if not forms:
                del self._forms[start]
        self._bound = max(_FEWEST, 2 * self._entries)


def _first(owners: Iterable[weakref.ref[T]]) -> T | None:
    return next((owner for owner in (one() for one in owners) if owner is not None), None)
