"""JSON paths of Confluent's transforms, as texts."""

from __future__ import annotations

import re

import pytest

from headrace.plugins.transforms.json_path import Child, Exists, Item, Matching, Path, parsed


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("$.[?(@.ts)]", (Matching(Exists(Path((Child("ts"),), from_root=False))),)),
        ("$.['a'].[0].b", (Child("a"), Item(0), Child("b"))),
        ("a['b c'][-1]", (Child("a"), Child("b c"), Item(-1))),
    ],
)
def test_a_dot_may_stand_before_a_bracket(text: str, steps: tuple[object, ...]) -> None:
    assert parsed(text) == Path(steps)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (".a", "at character 1, before '..a': recursive descent"),
        ("$..[0]", "at character 2, before '..[0]': recursive descent"),
        ("$.[", "at its end: expected an index"),
    ],
)
def test_a_refusal_has_its_place(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        parsed(text)
