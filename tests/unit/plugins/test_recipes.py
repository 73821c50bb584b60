"""A recipe counts for the class that tells it."""

from __future__ import annotations

from collections.abc import Hashable

from headrace.converters.json.converter import JsonConverter
from headrace.converters.numbers import BooleanConverter, DoubleConverter, LongConverter
from headrace.plugins.recipes import recipe_of, together


class Tells:
    recipe: Hashable | None = ("a",)

    def columns(self) -> str:
        return "a"


class Named(Tells):
    """The same under another name."""

    version = "2"


class Extended(Tells):
    def columns(self) -> str:
        return "b"


class TellsAnew(Extended):
    recipe = ("b",)


class More(Tells):
    @property
    def more(self) -> str:
        return "c"


class TellsItself(Tells):
    def __init__(self, of: Hashable) -> None:
        self.recipe = of


def test_a_class_tells_for_itself_and_not_for_what_others_add() -> None:
    assert recipe_of(Tells()) == (Tells, ("a",))
    assert recipe_of(Named()) == (Named, ("a",))
    assert recipe_of(TellsAnew()) == (TellsAnew, ("b",))
    assert recipe_of(TellsItself("d")) == (TellsItself, "d")
    assert recipe_of(TellsItself(None)) is None
    assert [recipe_of(made()) for made in (Extended, More)] == [None, None]


def test_converters_of_numbers_tell_each_its_own() -> None:
    told = [recipe_of(made()) for made in (BooleanConverter, LongConverter, DoubleConverter)]
    assert None not in told
    assert len(set(told)) == 3


def test_a_converter_that_extends_another_does_not_tell() -> None:
    class Own(JsonConverter):
        def close(self) -> None:
            """Its own."""

    made, own = JsonConverter(), Own()
    for one in (made, own):
        one.configure({"converter.type": "value"}, is_key=False)
    assert recipe_of(made) is not None
    assert recipe_of(own) is None


def test_what_depends_on_an_unknown_is_unknown() -> None:
    assert together(1, (), "a") == (1, (), "a")
    assert together(1, None) is None
