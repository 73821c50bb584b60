"""Instants as users write them."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo


def epoch_ms(text: str, zone: tzinfo | None = UTC) -> int:
    """Read an instant since 1970 in ISO 8601. Units: milliseconds of the epoch.

    `zone`: of an instant that names none; None: this machine's. Errors: ValueError. Earlier instants are among them,
    because Kafka takes negative ones for names of offsets.
    """
    found = datetime.fromisoformat(text)
    try:
        ms = round((found if found.tzinfo or zone is None else found.replace(tzinfo=zone)).timestamp() * 1000)
    except (OverflowError, OSError) as error:
        raise ValueError(f"{text} is too far away") from error
    if ms < 0:
        raise ValueError(f"{text} is before 1970")
    return ms
