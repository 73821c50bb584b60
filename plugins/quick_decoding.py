"""Optional extension of converters: a quicker way to decode bytes of the usual form.

A task's first program has only the quick ways, because an expression that parses every odd form takes long to compile.
A row that the quick way cannot read makes the worker compile the thorough ones, `Converter.identify` and
`Converter.decode`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from pyspark.sql import Column

from headrace.plugins.schema import Schema

Parts = Mapping[str, Column]
"""Columns by the converter's names for them."""
Step = Callable[[Column, Parts], Parts]
"""Makes parts from the bytes and from all earlier parts; null if those are null."""


class QuickDecoding:
    """Decodes the usual form of bytes quicker than `Converter`; the defaults of all methods are no quicker."""

    reads_text: ClassVar[bool] = False
    """True if the bytes come as a Spark string that holds them, valid UTF-8 or not.

    Spark copies binary data each time an expression touches it, but not a string. `identify` and `decode` then also get
    the string.
    """

    def matches(self, data: Column, identity: bytes) -> Column | None:
        """Return the test that `identify(data)` is `identity`, without computing it; None: there is no quicker way."""
        return None

    def quick_identity(self, data: Column) -> Column | None:
        """Return `identify` for bytes of the usual form, null for others; None: there is no quicker way."""
        return None

    def quick_steps(self, identity: bytes, schema: Schema | None) -> Sequence[Step]:
        """Return steps that compute what `quick_decode` uses repeatedly, such as the parsed bytes.

        Each part is computed once for a row.
        """
        return ()

    def quick_decode(self, data: Column, parts: Parts, identity: bytes, schema: Schema | None) -> Column | None:
        """Return the value in bytes of the usual form, null for others; None: there is no quicker way than `decode`.

        `parts` has all results of `quick_steps`.
        """
        return None
