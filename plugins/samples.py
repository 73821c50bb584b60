"""Metrics of a plugin's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Sample(NamedTuple):
    """One Prometheus sample."""

    name: str
    """Full name; a counter's ends with `_total`."""
    labels: Mapping[str, str]
    value: float
    text: str = ""
    """Help text."""
