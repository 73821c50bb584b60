"""The metrics that a plugin has of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Sample(NamedTuple):
    """One figure, for Prometheus."""

    name: str
    """In full; a counter's ends with `_total`."""
    labels: Mapping[str, str]
    value: float
    text: str = ""
    """Says what it is."""
