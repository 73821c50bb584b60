"""Requirements of plugins: what a file declares, and what is not met here."""

from __future__ import annotations

import platform
from importlib.metadata import version

import pytest

from headrace.plugins.interop.requirements import declared_in, unmet

BLOCK = '''"""A plugin."""
# /// script
# requires-python = ">=3.11"
# dependencies = [
#     "httpx>=0.28",
#
#     "nosuch; python_version < '3'",
# ]
# ///
import httpx
'''


def test_a_file_declares_what_it_needs() -> None:
    assert declared_in(BLOCK) == ("httpx>=0.28", "nosuch; python_version < '3'", "python>=3.11")
    assert declared_in(BLOCK.replace("\n", "\r\n")) == declared_in(BLOCK)
    assert declared_in("import httpx\n") == ()
    assert declared_in("# /// tool\n# dependencies = 3\n# ///\n") == ()


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("# /// script\n# a =\n# ///", "is no TOML"),
        ('# /// script\n# dependencies = "httpx"\n# ///', "is no list of texts"),
        ('# /// script\n# dependencies = ["httpx>"]\n# ///', "'httpx>' cannot be read"),
        ("# /// script\n# requires-python = 3\n# ///", "`requires-python` cannot be read: 3"),
        ('# /// script\n# requires-python = "new"\n# ///', "`requires-python` cannot be read: 'new'"),
        ("# /// script\n# a = 1\n# ///\n\n# /// script\n# a = 1\n# ///", "several blocks"),
        ("# /// script\n# a = 1\nimport httpx\n", "does not end"),
    ],
)
def test_a_block_that_cannot_be_read_is_refused(block: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        declared_in(block)


def test_what_is_not_met_is_named_with_what_is_there() -> None:
    packaging = version("packaging")
    asked = ("packaging", "packaging<1", "no-such-package>=2", "nosuch; python_version < '3'", "python<3", "python>=3")
    assert [(str(needed), there) for needed, there in unmet(asked)] == [
        ("packaging<1", packaging),
        ("no-such-package>=2", None),
        ("python<3", platform.python_version()),
    ]


def test_extras_are_part_of_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Found:
        version = "1.0"
        requires = ("packaging", "no-such-one; extra == 'more'", "no-such-two; extra == 'other'")

    monkeypatch.setattr("headrace.plugins.interop.requirements._installed", {"thing": Found()}.get)
    assert [str(needed) for needed, _ in unmet(["thing[more]"])] == ["no-such-one"]
