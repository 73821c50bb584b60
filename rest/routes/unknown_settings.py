"""A header with the settings of a config that nothing reads: Connect's answers have no member for them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.config.connector.unknown_settings import UnknownSetting

UNREAD_HEADER: Final = "X-Headrace-Unread"
_LONGEST: Final = 200
_MOST: Final = 4000
"""The most characters of a setting's name, and of the header: clients and proxies refuse more than 8,000 bytes."""


def unknown_settings_header(found: Iterable[UnknownSetting]) -> dict[str, str]:
    """The header with these settings and their advice; empty if there are none."""
    told = "; ".join(f"{key[:_LONGEST]}: {advice}" for key, advice in found)
    # A name may have any character, even one that ends a header.
    return {UNREAD_HEADER: told.encode("unicode_escape").decode()[:_MOST]} if told else {}
