"""Versions in Maven's order, and the one of a plugin that a range takes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.config.connector.enrichment import version_objection
from headrace.config.connector.plugin_versions import compared, of_version, range_of, why_no_range


@pytest.mark.parametrize(
    "ordered",
    [
        [
            "1-alpha1",
            "1.0.Beta1",
            "1.0-beta-2",
            "1-m1",
            "1-rc",
            "1-SNAPSHOT",
            "1",
            "1-sp",
            "1-abc",
            "1-1",
            "1.1",
            "2",
            "10",
        ],
        ["3.4.9.Final", "3.5.0.Alpha1", "3.5.0.Beta2", "3.5.0.CR1", "3.5.0.Final", "3.5.1.Final"],
        ["1.2.9", "1.2.10", "1.10", "20240101"],
        ["7.9.0-ccs", "7.9.1-ccs", "8.0.0"],
    ],
)
def test_versions_have_mavens_order(ordered: list[str]) -> None:
    for lower, higher in itertools.pairwise(ordered):
        assert (compared(lower, higher), compared(higher, lower)) == (-1, 1), (lower, higher)


@pytest.mark.parametrize(
    "same",
    [("1", "1.0.0", "1.Final", "1-ga", "1.0-RELEASE"), ("1-cr2", "1.0.rc2"), ("1a1", "1-alpha-1"), ("1_2", "1-2")],
)
def test_versions_that_are_the_same(same: Sequence[str]) -> None:
    assert all(compared(one, other) == 0 for one in same for other in same)


@dataclass
class Known:
    version: str | None
    others: list[Any] = field(default_factory=list)

    @property
    def versions(self) -> list[Any]:
        return [*self.others, self]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, "3.0"),
        ("latest", "3.0"),
        (" Latest ", "3.0"),
        ("1.0", "1.0"),
        ("1", "1.0"),
        ("[1.0]", "1.0"),
        ("[1.0,2.0)", "1.5"),
        ("(1.0,)", "3.0"),
        ("(,3.0)", "1.5"),
        ("[1.0,1.2],[1.5,2.0]", "1.5"),
        ("(,1.2],[2.0,2.9]", "1.0"),
        ("2.0", None),
        ("(1.5,3.0)", None),
        ("", None),
        ("no version", None),
    ],
)
def test_the_latest_version_in_a_range_is_taken(wanted: str | None, found: str | None) -> None:
    chosen = of_version(Known("3.0", [Known(None), Known("1.0"), Known("1.5")]), wanted)
    assert (None if chosen is None else chosen.version) == found


def test_a_version_alone_is_a_range_of_its_own() -> None:
    assert [range_of(text) for text in ("9.9", "[4.0,5.0)", "")] == ["[9.9,9.9]", "[4.0,5.0)", "[,]"]


@pytest.mark.parametrize(
    "text", ["[1.0", "1.0]", "1.0,2.0", "(", "[]", "(1.0)", "[1.0,1.5,2.0]", "[2.0,1.0]", "[1.0],", "[1.0,[2.0]]"]
)
def test_what_is_no_range_takes_nothing(text: str) -> None:
    assert of_version(Known("3.0", [Known("1.0"), Known("1.5")]), text) is None
    assert why_no_range(text)
    plugins: Any = None
    plugin: Any = Known("3.0")
    objection = version_objection(plugins, plugin, text)
    assert objection == f"Invalid version range {text}: {why_no_range(text)}"


@pytest.mark.parametrize("text", [None, "latest", "", "1.0", "no version", "[1.0]", "(,1.2], [2.0,)", "[1.0,1.0]"])
def test_what_is_a_range_is_not_refused(text: str | None) -> None:
    assert why_no_range(text) is None
