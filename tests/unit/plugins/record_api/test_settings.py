"""Settings that authors declare: types, defaults, secrets."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.config.settings import Type
from headrace.plugins import Setting
from headrace.plugins.record_api.settings import declared, parsed

SETTINGS = declared(
    (
        Setting("url"),
        Setting("limit", 5),
        Setting("rate", 0.5),
        Setting("open", False),
        Setting("names", type=list, default=[]),
        Setting("at", None, int),
        Setting("word", "x", secret=True),
        Setting("how", "fast", one_of=("fast", "slow"), doc="How it goes."),
    )
)


def test_types_follow_from_defaults() -> None:
    assert [one.type for one in SETTINGS] == [
        Type.STRING,
        Type.LONG,
        Type.DOUBLE,
        Type.BOOLEAN,
        Type.LIST,
        Type.LONG,
        Type.PASSWORD,
        Type.STRING,
    ]
    assert SETTINGS["how"].documentation == "How it goes."


def test_values_are_parsed_and_secrets_are_in_the_clear() -> None:
    given = {"url": "u", "limit": "7", "names": "a,b", "at": "3", "word": "secret", "open": "true"}
    assert parsed(SETTINGS, given) == {
        "url": "u",
        "limit": 7,
        "rate": 0.5,
        "open": True,
        "names": ["a", "b"],
        "at": 3,
        "word": "secret",
        "how": "fast",
    }
    assert "secret" not in str(SETTINGS.mask(given))


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigError) as refused:
        parsed(SETTINGS, {"limit": "x", "how": "never", "open": "maybe"})
    assert {one.key for one in refused.value.problems} == {"url", "limit", "how", "open"}


@pytest.mark.parametrize("kind", [dict, bytes])
def test_a_type_that_no_setting_has_is_named(kind: Any) -> None:
    with pytest.raises(TypeError, match=f"Setting x has the type {kind.__name__}; it may be one of"):
        declared([Setting("x", type=kind)])
