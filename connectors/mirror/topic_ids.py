"""Kafka's ids of topics, by which a topic that was deleted and made again differs from its former self."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from uuid import UUID

NO_ID: Final = UUID(int=0)
"""What brokers before Kafka 2.8 have in the place of an id."""


def parsed(text: str | None) -> UUID | None:
    """Parse an id as Kafka's tools print it; None for no id, and for what is none."""
    try:
        found = UUID(bytes=urlsafe_b64decode(f"{text}=="))
    except ValueError:
        return None
    return None if found == NO_ID else found


def printed(found: UUID) -> str:
    """The id as Kafka's tools print it."""
    return urlsafe_b64encode(found.bytes).decode().rstrip("=")
