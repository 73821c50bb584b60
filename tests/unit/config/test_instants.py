"""Instants as users write them."""

from __future__ import annotations

from datetime import datetime

import pytest

from headrace.config.instants import epoch_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01", 0),
        ("2026-11-28T12:00:00Z", 1_795_867_200_000),
        ("2026-11-28T12:00:00.001", 1_795_867_200_001),
        ("2026-11-28T14:00:00+02:00", 1_795_867_200_000),
    ],
)
def test_an_instant_is_in_utc_unless_it_says_otherwise(text: str, ms: int) -> None:
    assert epoch_ms(text) == ms


def test_without_a_zone_it_is_this_machines() -> None:
    assert epoch_ms("2026-11-28T12:00:00", zone=None) == datetime(2026, 11, 28, 12).timestamp() * 1000


@pytest.mark.parametrize("text", ["", "soon", "1", "1969-12-31T23:59:59.999Z", "0001-01-01T00:00:00+23:59"])
def test_what_is_no_instant_since_1970_is_refused(text: str) -> None:
    """Kafka takes -1 and -2, the last milliseconds before 1970, for the end and the beginning."""
    with pytest.raises(ValueError, match=r"1970|too far away|Invalid isoformat"):
        epoch_ms(text)
