"""The request of a verification: topics and groups, and a range of records."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import Final

from headrace.config.instants import epoch_ms

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class UsageError(ValueError):
    """The command line makes no sense."""


@dataclass(frozen=True)
class Asked:
    """The options of one run. Errors: UsageError for options that exclude each other."""

    topics: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    whole: bool = False
    last: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    since: str | None = None
    max_lag: int = 0
    offsets_topic: str | None = None
    timeout_s: float = 30

    def __post_init__(self) -> None:
        starts = {"--last": self.last, "--from-offset": self.from_offset, "--since": self.since}
        given = [name for name, value in starts.items() if value is not None]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} exclude each other: each says where the range begins")
        if self.from_offset is not None and self.to_offset is not None and self.to_offset < self.from_offset:
            raise UsageError("--to-offset is before --from-offset")
        if self.since is not None:
            self.since_ms()

    @property
    def compares(self) -> bool:
        """True if records are compared."""
        return self.whole or any(one is not None for one in (self.last, self.from_offset, self.to_offset, self.since))

    def since_ms(self) -> int | None:
        """The time from which on records are compared. Units: milliseconds since 1970."""
        if self.since is None:
            return None
        if ago := re.fullmatch(r"(\d+)([smhd])", self.since):
            return int((time.time() - int(ago[1]) * _UNITS[ago[2]]) * 1000)
        try:
            return epoch_ms(self.since)
        except ValueError:
            raise UsageError(f"--since {self.since} is no time: write 2026-01-31T12:00:00Z, or 15m, 2h, 7d") from None
