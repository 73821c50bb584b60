"""Kafka's topic ids. They tell a topic that was deleted and made again from the former one."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from uuid import UUID

NO_ID: Final = UUID(int=0)
"""Brokers before Kafka 2.8 give this in place of a topic id."""


def parsed(text: str | None) -> UUID | None:
    """Parse a topic id as Kafka's tools print it; None for other texts, null and `NO_ID`."""
    try:
        found = UUID(bytes=urlsafe_b64decode(f"{text}=="))
    except ValueError:
        return None
    return None if found == NO_ID else found


def printed(found: UUID) -> str:
    """The topic id as Kafka's tools print it."""
    return urlsafe_b64encode(found.bytes).decode().rstrip("=")
