"""The optional second interface of converters: a quicker way to decode bytes of the usual form.

The first program of a task has only the quick ways in it, because an expression that parses every odd form takes long
to compile. A row that the quick way does not serve makes the worker compile the thorough ones, `Converter.identify` and
`Converter.decode`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from pyspark.sql import Column

from headrace.plugins.schema import Schema

Parts = Mapping[str, Column]
"""Columns by the names that the converter gives them."""
Step = Callable[[Column, Parts], Parts]
"""Makes parts of the bytes and of all the parts made before; null where those are."""


class QuickDecoding:
    """Decodes the usual form of bytes quicker than `Converter`; each method has a default that is no quicker."""

    reads_text: ClassVar[bool] = False
    """Whether the bytes come as a Spark string that holds them, valid UTF-8 or not: Spark copies binary data each time
    an expression touches it, a string it does not. `identify` and `decode` then get the string, too."""

    def matches(self, data: Column, identity: bytes) -> Column | None:
        """Return whether `identify(data)` is `identity` without computing it; None: there is no quicker way."""
        return None

    def quick_identity(self, data: Column) -> Column | None:
        """Return `identify` for bytes of the usual form, null for others; None: there is no quicker way."""
        return None

    def quick_steps(self, identity: bytes, schema: Schema | None) -> Sequence[Step]:
        """Return steps to what `quick_decode` looks at again and again, such as the bytes parsed.

        Each part is computed once for a row.
        """
        return ()

    def quick_decode(self, data: Column, parts: Parts, identity: bytes, schema: Schema | None) -> Column | None:
        """Return the value in bytes of the usual form, null for others; None: there is no quicker way than `decode`.

        `parts` is all that the `quick_steps` made.
        """
        return None
