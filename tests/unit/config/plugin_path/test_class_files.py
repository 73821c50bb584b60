"""Facts that a class file tells of its class."""

from __future__ import annotations

import pytest

from headrace.config.plugin_path.class_files import BrokenClassError, parse
from tests.made_jars import ABSTRACT, INTERFACE, PUBLIC, class_file


def test_names_and_supertypes_are_read() -> None:
    parsed = parse(class_file("org.example.My$Value", "org.example.My", ["org.example.One", "org.example.Two"]))
    assert parsed.name == "org.example.My$Value"
    assert parsed.supertypes == ("org.example.My", "org.example.One", "org.example.Two")
    assert parsed.is_concrete
    assert parsed.can_be_made()


@pytest.mark.parametrize("flags", [0, PUBLIC | ABSTRACT, PUBLIC | ABSTRACT | INTERFACE])
def test_what_is_not_public_or_is_abstract_is_not_concrete(flags: int) -> None:
    assert not parse(class_file("org.One", flags=flags)).is_concrete


@pytest.mark.parametrize("constructor", [None, "(Lorg/Outer;)V"])
def test_without_a_constructor_for_no_arguments_a_class_cannot_be_made(constructor: str | None) -> None:
    assert not parse(class_file("org.One", constructor=constructor)).can_be_made()


@pytest.mark.parametrize("size", [0, 3, 9, 20, 60, 100])
def test_damaged_bytes_are_said(size: int) -> None:
    with pytest.raises(BrokenClassError):
        parse(class_file("org.example.One")[:size])


def test_methods_that_end_too_early_are_said() -> None:
    with pytest.raises(BrokenClassError, match="methods end too early"):
        parse(class_file("org.example.One")[:-12]).can_be_made()
