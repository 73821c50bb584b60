"""Topic names that Kafka allows."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

_ALLOWED: Final = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")


def is_allowed(topic: str) -> bool:
    """True if Kafka allows this name."""
    return _ALLOWED.fullmatch(topic) is not None


def refusal(topics: Collection[str]) -> str | None:
    """The reason that records cannot go to these topics; None if Kafka allows all names."""
    bad = ", ".join(repr(topic) for topic in sorted(topics) if not is_allowed(topic))
    rule = "a name has letters, digits, '.', '_' and '-', at most 249 of them"
    return f"Kafka allows no topic {bad}: {rule}. Let a transform such as RegexRouter rename it" if bad else None
