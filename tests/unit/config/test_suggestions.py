"""Advice about names that nothing has."""

from __future__ import annotations

from headrace.config.suggestions import class_advice, nearest, nearest_class

CLASSES = ["org.a.InsertField$Key", "org.a.InsertField$Value", "org.a.Cast$Value"]


def test_the_nearest_name_is_much_like_it_whatever_its_case() -> None:
    assert nearest("insert.moed", ["insert.mode", "batch.size"]) == "insert.mode"
    assert nearest("BatchSize", ["insert.mode", "batch.size"]) == "batch.size"
    assert nearest("table", ["insert.mode", "batch.size"]) is None


def test_a_class_is_meant_by_its_full_or_its_short_name() -> None:
    assert nearest_class("InsertFeild$Value", CLASSES) == "org.a.InsertField$Value"
    assert nearest_class("com.example.Cast$Valeu", CLASSES) == "org.a.Cast$Value"
    assert nearest_class("Elsewhere", CLASSES) is None
    assert class_advice("Cast", CLASSES[2:]) == " There are: Cast$Value."


def test_of_many_classes_the_most_alike_are_named() -> None:
    many = [f"org.a.Part{number}Connector" for number in range(40)]
    advice = class_advice("FileStreamSnk", [*many, "org.a.FileStreamSink", "org.a.FileStreamSource"])
    named = advice.partition("There are: ")[2].split(", ")
    assert named[:2] == ["FileStreamSink", "FileStreamSource"]
    assert (len(named), named[-1]) == (41, "and 2 more.")


def test_debeziums_scripts_have_something_in_their_place() -> None:
    assert "headrace.transforms.Sql with WHERE" in class_advice("io.debezium.transforms.Filter", CLASSES)
    assert "a column _topic" in class_advice("io.debezium.transforms.ContentBasedRouter", CLASSES)
