"""Texts and bytes by regular expressions, drawn for all rows at once.

Each node of a pattern writes its bytes into columns of its own, for all rows, and marks those that a row does not have.

    texts(pattern("User_[1-9]"), rng, 1000)

Served are letters, classes, groups, `|`, `?`, `*`, `+`, `{n}`, `{n,}`, `{n,m}` and the escapes `\\d \\w \\s \\D \\W \\S
\\t \\n`; a dot and a negated class stand for printable ASCII.

Decided: `*`, `+` and `{n,}` repeat up to `MORE` times beyond the least, because a text has to end; loses: longer texts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

MORE: Final = 15
MOST_WIDTH: Final = 100_000
"""The most bytes of one text: alternatives and repetitions count in full."""
_MOST_CELLS: Final = 4 << 20
"""So many bytes are drawn at a time: a pattern takes memory for its longest text in each row."""
_MOST_DEPTH: Final = 32
PRINTABLE: Final = bytes(range(0x20, 0x7F))

_DIGITS: Final = b"0123456789"
_WORD: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
_SPACE: Final = b" \t\n\r\x0b\x0c"
_SETS: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r"}

Octets = npt.NDArray[np.uint8]
Marks = npt.NDArray[np.bool_]


class Node(ABC):
    """A part of a pattern; picklable."""

    @property
    @abstractmethod
    def width(self) -> int:
        """The most bytes that it writes."""

    @property
    @abstractmethod
    def is_fixed(self) -> bool:
        """True if it always writes all of them."""

    @abstractmethod
    def write(self, rng: np.random.Generator, out: Octets, present: Marks) -> None:
        """Fill `out`, which has this node's columns, and clear the marks of what a row does not have."""


@dataclass(frozen=True)
class Literal(Node):
    """The same bytes in each row."""

    octets: bytes

    @property
    def width(self) -> int:
        """The number of bytes."""
        return len(self.octets)

    @property
    def is_fixed(self) -> bool:
        """True."""
        return True

    def write(self, rng: np.random.Generator, out: Octets, present: Marks) -> None:
        out[:] = np.frombuffer(self.octets, np.uint8)


@dataclass(frozen=True)
class OneOf(Node):
    """Any of these bytes, from `least` to `most` times."""

    octets: bytes
    least: int = 1
    most: int = 1

    @property
    def width(self) -> int:
        """The most bytes."""
        return self.most

    @property
    def is_fixed(self) -> bool:
        """True if the count is fixed."""
        return self.least == self.most

    def write(self, rng: np.random.Generator, out: Octets, present: Marks) -> None:
        table = np.frombuffer(self.octets, np.uint8)
        out[:] = table[rng.integers(0, len(table), out.shape)]
        if not self.is_fixed:
            present &= np.arange(self.most) < _counts(self, rng, len(out))


@dataclass(frozen=True)
class Sequenced(Node):
    """Parts, one after the other."""

    parts: tuple[Node, ...]

    @property
    def width(self) -> int:
        """The sum of the parts' widths."""
        return sum(part.width for part in self.parts)

    @property
    def is_fixed(self) -> bool:
        """True if all parts are."""
        return all(part.is_fixed for part in self.parts)

    def write(self, rng: np.random.Generator, out: Octets, present: Marks) -> None:
        at = 0
        for part in self.parts:
            part.write(rng, out[:, at : at + part.width], present[:, at : at + part.width])
            at += part.width


@dataclass(frozen=True)
class Alternatives(Node):
    """One of several parts, each as likely as another."""

    parts: tuple[Node, ...]

    @property
    def width(self) -> int:
        """The sum of the parts' widths: each has its own columns."""
        return sum(part.width for part in self.parts)

    @property
    def is_fixed(self) -> bool:
        """False: a row has one part of them."""
        return False

    def write(self, rng: np.random.Generator, out: Octets, present: Marks) -> None:
        chosen = rng.integers(0, len(self.parts), (len(out), 1))
        at = 0
        for number, part in enumerate(self.parts):
            own = present[:, at : at + part.width]
            part.write(rng, out[:, at : at + part.width], own)
            own &= chosen == number
            at += part.width


@dataclass(frozen=True)
class Repeated(Node):
    """A part, from `least` to `most` times."""

    part: Node
    least: int
    most: int

    @property
    def width(self) -> int:
        """The width of the most repetitions."""
        return self.part.width * self.most

    @property
    def is_fixed(self) -> bool:
        """True if count and part are fixed."""
        return self.least == self.most and self.part.is_fixed

    def write(self, rng: np.random.Generator, out: Octets, present: Marks) -> None:
        counts, width = _counts(self, rng, len(out)), self.part.width
        for number in range(self.most):
            own = present[:, number * width : (number + 1) * width]
            self.part.write(rng, out[:, number * width : (number + 1) * width], own)
            own &= counts > number


def _counts(node: OneOf | Repeated, rng: np.random.Generator, rows: int) -> npt.NDArray[np.int64]:
    return rng.integers(node.least, node.most + 1, (rows, 1))


def texts(node: Node, rng: np.random.Generator, rows: int, kind: pa.DataType) -> pa.Array:
    """Draw so many texts, or byte strings, of this pattern; `kind`: string or binary."""
    most = max(1, _MOST_CELLS // max(1, node.width))
    if rows > most:
        return pa.concat_arrays([texts(node, rng, min(most, rows - at), kind) for at in range(0, rows, most)])
    out, present = np.empty((rows, node.width), np.uint8), np.ones((rows, node.width), bool)
    node.write(rng, out, present)
    if node.is_fixed:
        data, ends = out.ravel(), np.arange(rows + 1) * node.width
    else:
        data, ends = out[present], np.concatenate(([0], np.cumsum(present.sum(1))))
    buffers = [None, pa.py_buffer(ends.astype(np.int32).tobytes()), pa.py_buffer(data.tobytes())]
    return pa.Array.from_buffers(kind, rows, buffers)


def pattern(text: str) -> Node:
    """Read a regular expression. Errors: ValueError that says what is not served, and where."""
    reader = _Reader(text)
    node = reader.alternatives()
    if reader.at < len(text):
        raise reader.fault("an unmatched )")
    if node.width > MOST_WIDTH:
        raise ValueError(f"{text!r}: its texts may have {node.width} bytes, and {MOST_WIDTH} at most are served")
    return node


class _Reader:
    """Reads an expression from its left to its right. Errors: ValueError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._depth = 0

    def alternatives(self) -> Node:
        parts = [self._sequence()]
        while self._takes("|"):
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else Alternatives(tuple(parts))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            parts.append(self._repeated(self._atom()))
        return parts[0] if len(parts) == 1 else Sequenced(tuple(parts))

    def _atom(self) -> Node:
        char = self._next()
        match char:
            case "(":
                if self._takes("?") and not self._takes(":"):
                    raise self.fault("only plain groups and (?:…) are served")
                self._depth += 1
                if self._depth > _MOST_DEPTH:
                    raise self.fault(f"more than {_MOST_DEPTH} groups within each other")
                inner = self.alternatives()
                if not self._takes(")"):
                    raise self.fault("an unclosed group")
                self._depth -= 1
                return inner
            case "[":
                return self._class()
            case ".":
                return OneOf(PRINTABLE)
            case "\\":
                return self._escape()
            case "^" | "$":
                raise self.fault(f"{char} is not served: a text always matches as a whole; write \\{char} for the sign")
            case "*" | "+" | "?" | "{":
                raise self.fault(f"{char} repeats nothing; write \\{char} for the sign")
        return Literal(char.encode())

    def _repeated(self, node: Node) -> Node:
        if self.at == len(self.text) or self.text[self.at] not in "?*+{":
            return node
        least, most = self._count(self._next())
        if most * max(1, node.width) > MOST_WIDTH:
            raise self.fault(f"more than {MOST_WIDTH} bytes, or repetitions")
        if self.text[self.at : self.at + 1] in ("?", "+"):
            raise self.fault("lazy and possessive repetitions are not served")
        if self.text[self.at : self.at + 1] in ("*", "{"):
            raise self.fault("a repetition is not repeated but in a group")
        if isinstance(node, OneOf) and (node.least, node.most) == (1, 1):
            return OneOf(node.octets, least, most)
        return Repeated(node, least, most)

    def _count(self, sign: str) -> tuple[int, int]:
        if sign != "{":
            return {"?": (0, 1), "*": (0, MORE), "+": (1, 1 + MORE)}[sign]
        end = self.text.find("}", self.at)
        least, comma, most = self.text[self.at : end].partition(",")
        if end < 0 or not least.isdecimal() or not (most.isdecimal() or not most):
            raise self.fault("a repetition is {n}, {n,} or {n,m}")
        self.at = end + 1
        bounds = int(least), int(most) if most else int(least) + (MORE if comma else 0)
        if bounds[0] > bounds[1]:
            raise self.fault("a repetition whose least is more than its most")
        return bounds

    def _class(self) -> Node:
        negated, chars, first = self._takes("^"), bytearray(), True
        while first or not self._takes("]"):
            first = False
            low = self._member()
            if (
                len(low) == 1
                and self.text[self.at : self.at + 1] == "-"
                and self.text[self.at + 1 : self.at + 2] != "]"
            ):
                self.at += 1
                high = self._member()
                if len(high) != 1 or high < low:
                    raise self.fault("a range whose end is before its begin")
                low = bytes(range(low[0], high[0] + 1))
            chars += low
        chosen = bytes(sorted(set(PRINTABLE) - set(chars) if negated else set(chars)))
        if not chosen:
            raise self.fault("a class without characters")
        return OneOf(chosen)

    def _member(self) -> bytes:
        char = self._next("an unclosed class")
        if char == "\\":
            escaped = self._escape()
            return escaped.octets
        if char == "[" or self.text.startswith("&&", self.at - 1):
            raise self.fault("classes within classes are not served; write \\[ for the sign")
        return self._ascii(char)

    def _escape(self) -> Literal | OneOf:
        char = self._next("a \\ at the end")
        if char in _SETS:
            return OneOf(_SETS[char])
        if char.lower() in _SETS and char.isupper():
            return OneOf(bytes(sorted(set(PRINTABLE) - set(_SETS[char.lower()]))))
        if char in _LETTERS or not char.isalnum():
            return Literal(_LETTERS.get(char, char).encode())
        raise self.fault(f"\\{char} is not served")

    def _ascii(self, char: str) -> bytes:
        if not char.isascii():
            raise self.fault(f"{char} in a class is not served; write it as an alternative: (ä|ö|ü)")
        return char.encode()

    def _takes(self, sign: str) -> bool:
        found = self.text.startswith(sign, self.at)
        self.at += found
        return found

    def _next(self, missing: str = "it ends too early") -> str:
        if self.at >= len(self.text):
            raise self.fault(missing)
        self.at += 1
        return self.text[self.at - 1]

    def fault(self, what: str) -> ValueError:
        """Return the error with its place."""
        return ValueError(f"{what} (after {self.text[: self.at]!r} in {self.text!r})")
