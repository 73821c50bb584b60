"""Paths to nested fields are cut into steps as Connect cuts them."""

from __future__ import annotations

import pytest

from headrace.plugins.transforms.field_paths import steps


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("", ()),
        ("a", ("a",)),
        ("a.b.c", ("a", "b", "c")),
        ("a.", ("a", "")),
        (".a", ("", "a")),
        ("a..b", ("a", "", "b")),
        ("`a.b`.c", ("a.b", "c")),
        ("a.`b.c`", ("a", "b.c")),
        ("a`b.c", ("a`b", "c")),
        ("`a`b`.c", ("a`b", "c")),
        (r"`a\`.b`.c", ("a`.b", "c")),
        (r"`a\`b`", (r"a\`b",)),
        ("``", ("",)),
        ("`a`.", ("a", "")),
    ],
)
def test_steps(path: str, wanted: tuple[str, ...]) -> None:
    assert steps(path) == wanted


@pytest.mark.parametrize(("path", "position"), [("`a", 0), ("a.`b", 2), (r"a.`b\`", 2), ("`a`b", 0), ("`", 0)])
def test_a_backtick_that_nothing_closes_is_named(path: str, position: int) -> None:
    with pytest.raises(ValueError, match="Incomplete backtick pair") as refused:
        steps(path)
    assert str(refused.value) == (
        f"Incomplete backtick pair in path: [{path}], consider adding a backslash before backtick at position "
        f"{position} to escape it"
    )
