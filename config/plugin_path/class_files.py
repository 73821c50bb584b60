"""Reads from Java class files the supertypes of a class, and if it can be instantiated.

Only the constant pool and the table of methods are read (Java's specification, chapter 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MAGIC: Final = b"\xca\xfe\xba\xbe"
_PUBLIC, _INTERFACE, _ABSTRACT = 0x0001, 0x0200, 0x0400
_UTF8: Final = 1
_WIDE: Final = (5, 6)
_SIZES: Final = {
    3: 5,
    4: 5,
    5: 9,
    6: 9,
    7: 3,
    8: 3,
    9: 5,
    10: 5,
    11: 5,
    12: 5,
    15: 4,
    16: 3,
    17: 5,
    18: 5,
    19: 3,
    20: 3,
}
"""Size in bytes of each constant with its tag; a text has its own length."""


class BrokenClassError(Exception):
    """The bytes are not a class file."""


@dataclass(frozen=True, slots=True)
class ClassFile:
    """The class of a class file; names have dots."""

    name: str
    supertypes: tuple[str, ...]
    """Superclass first, then interfaces."""
    flags: int
    _data: bytes
    _pool: tuple[int, ...]
    _members: int

    @property
    def is_concrete(self) -> bool:
        """True if public, and neither abstract nor an interface."""
        return bool(self.flags & _PUBLIC) and not self.flags & (_INTERFACE | _ABSTRACT)

    def can_be_made(self) -> bool:
        """True if it has a public constructor without arguments. Errors: BrokenClassError."""
        try:
            return self._has_constructor()
        except IndexError as error:
            raise BrokenClassError("its methods end too early") from error

    def _has_constructor(self) -> bool:
        at = _after_members(self._data, self._members)
        count, at = _u2(self._data, at), at + 2
        for _ in range(count):
            flags, name, shape = (_u2(self._data, at + n) for n in (0, 2, 4))
            if flags & _PUBLIC and self._text(name) == b"<init>" and self._text(shape) == b"()V":
                return True
            at = _after_attributes(self._data, at + 6)
        return False

    def _text(self, index: int) -> bytes:
        return _text(self._data, self._pool[index])


def parse(data: bytes) -> ClassFile:
    """Read a class file. Errors: BrokenClassError."""
    if data[:4] != _MAGIC:
        raise BrokenClassError("it does not begin as a class file does")
    try:
        pool, at = _constant_pool(data)

        def class_at(place: int) -> str:
            index = _u2(data, place)
            return _text(data, pool[_u2(data, pool[index] + 1)]).decode("utf-8", "replace").replace("/", ".")

        parents = [at + 4] if _u2(data, at + 4) else []
        interfaces = _u2(data, at + 6)
        parents += range(at + 8, at + 8 + 2 * interfaces, 2)
        supertypes = tuple(class_at(place) for place in parents)
        return ClassFile(class_at(at + 2), supertypes, _u2(data, at), data, pool, at + 8 + 2 * interfaces)
    except (IndexError, KeyError) as error:
        raise BrokenClassError("its constants are damaged") from error


def _constant_pool(data: bytes) -> tuple[tuple[int, ...], int]:
    """Return the start of each constant, and the end of the pool."""
    count = _u2(data, 8)
    begins = [0] * count
    at, index = 10, 1
    while index < count:
        begins[index] = at
        tag = data[at]
        if tag == _UTF8:
            at += 3 + (data[at + 1] << 8 | data[at + 2])
        else:
            at += _SIZES[tag]
            if tag in _WIDE:
                index += 1
        index += 1
    return tuple(begins), at


def _u2(data: bytes, at: int) -> int:
    return data[at] << 8 | data[at + 1]


def _text(data: bytes, at: int) -> bytes:
    return data[at + 3 : at + 3 + _u2(data, at + 1)]


def _after_members(data: bytes, at: int) -> int:
    count, at = _u2(data, at), at + 2
    for _ in range(count):
        at = _after_attributes(data, at + 6)
    return at


def _after_attributes(data: bytes, at: int) -> int:
    count, at = _u2(data, at), at + 2
    for _ in range(count):
        at += 6 + (_u2(data, at + 2) << 16 | _u2(data, at + 4))
    return at
