"""Lines as texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headrace.connectors.spool.json_rows import text_array
from headrace.connectors.spool.text_records import Found, TextRecords, lines

_LINE_SIGNS: Final = (10, 13)


@dataclass(frozen=True)
class LineRows:
    """Reads lines, blank ones too."""

    def begin(self, records: TextRecords) -> tuple[str, ...]:
        """Pass over nothing; there are no columns."""
        return ()

    def find(self, data: bytes, closed: bool) -> Found:
        """Find lines."""
        return lines(data, closed)

    def parse(self, data: bytes, ends: Any, names: Sequence[str]) -> tuple[Any, Any]:
        """Return the lines without their ends. Errors: Unreadable for text that is not UTF-8."""
        octets = np.frombuffer(data, np.uint8)
        kept = ~np.isin(octets, _LINE_SIGNS)
        return text_array(octets[kept].tobytes(), np.cumsum(kept)[ends - 1]), pa.nulls(len(ends))
