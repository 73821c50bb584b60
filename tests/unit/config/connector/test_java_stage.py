from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from headrace.config.connector.java_stage import ChainSplit, split_chain

HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


@dataclass(frozen=True)
class Known:
    """A plugin of these tests: `j.` is one of a jar, `b.` one of both worlds, `p.` one without a Java class.

    `r.` (of both worlds) and `n.` (without a Java class) read headers; `t.` gives headers one type.
    """

    class_name: str
    kind: str
    version: str | None = None

    @property
    def from_jar(self) -> bool:
        return self.class_name.startswith("j.")

    @property
    def versions(self) -> Sequence[Known]:
        return (self,)

    @property
    def has_java_class(self) -> bool:
        return not self.class_name.startswith(("p.", "n."))

    def load(self) -> type[Any]:
        assert not self.from_jar, "a chain is split without starting Java"
        return Headers if self.kind == "header_converter" else Reading if self.class_name[0] in "rn" else Plain


class Plain:
    reads_headers = False


class Reading:
    reads_headers = True


class Headers:
    header_schema: str | None = None

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        assert (config["converter.type"], is_key) == ("header", False)
        self.header_schema = config.get("type")

    def close(self) -> None:
        pass


class Plugins:
    plugins = (
        *(Known(f"{of}.T", "transformation") for of in "jbprn"),
        *(Known(f"{of}.P", "predicate") for of in "jbp"),
        *(Known(f"{of}.C", "converter") for of in "jbp"),
        *(Known(f"{of}.H", "header_converter") for of in "jp"),
        Known(HEADERS, "header_converter"),
    )

    def of_kind(self, *kinds: str) -> Sequence[Known]:
        return [one for one in self.plugins if one.kind in kinds]

    def full_name(self, name: str) -> str | None:
        return name

    def beside(self, connector: object) -> Plugins:
        return self

    def find(self, kind: str, name: str) -> Known:
        return next(one for one in self.of_kind(kind) if one.class_name == name)


def split(connector: str, kind: str, types: str, worker: Mapping[str, str] | None = None, **more: str) -> ChainSplit:
    """The split of transforms with the aliases a, b, … of these types; a predicate stands after a colon."""
    links = dict(zip("abcdef", types.split(), strict=False))
    config: dict[str, str | None] = {"transforms": ",".join(links), "predicates": "j,b,p"}
    config |= {f"predicates.{of}.type": f"{of}.P" for of in "jbp"}
    for alias, link in links.items():
        transform, _, predicate = link.partition(":")
        config[f"transforms.{alias}.type"] = f"{transform}.T"
        if predicate:
            config[f"transforms.{alias}.predicate"] = predicate
    config |= {name.replace("_", "."): value for name, value in more.items()}
    return split_chain(Known(f"{connector}.K", kind), config, Plugins(), {"value.converter": "b.C", **(worker or {})})


def shown(found: ChainSplit) -> tuple[str, str]:
    on_spark = (*found.before, *found.after)
    return "".join(step.alias for step in found.in_java), "".join(step.alias for step in on_spark)


@pytest.mark.parametrize(
    ("kind", "types", "in_java", "on_spark"),
    [
        ("source", "b j b j p", "abcd", "e"),
        ("source", "p b", "", "ab"),
        ("source", "b:j b", "a", "b"),
        ("source", "b:b j:b b:p", "ab", "c"),
        ("sink", "p b j b", "cd", "ab"),
        ("sink", "p b:j b:b", "bc", "a"),
        ("sink", "p b", "", "ab"),
    ],
)
def test_records_cross_once(kind: str, types: str, in_java: str, on_spark: str) -> None:
    found = split("j", kind, types)
    assert shown(found) == (in_java, on_spark)
    assert not found.problems


@pytest.mark.parametrize(
    ("kind", "types", "key", "advice"),
    [
        ("source", "p j", "transforms.a.type", "Move a after b in transforms."),
        ("source", "j b p j", "transforms.c.type", "Move c after d in transforms."),
        ("source", "b:p j", "predicates.p.type", "Move a after b in transforms."),
        ("source", "j:p", "predicates.p.type", "which it needs beside the Java plugin of the transform a."),
        ("source", "p:j", "transforms.a.type", "which it needs beside the Java plugin of the transform a."),
        ("sink", "j p", "transforms.b.type", "Move b before a in transforms."),
    ],
)
def test_what_has_no_java_class_is_refused_among_javas(kind: str, types: str, key: str, advice: str) -> None:
    (problem,) = split("j", kind, types).problems
    assert problem.key == key
    assert problem.message.endswith(advice)


def test_java_converters_draw_the_whole_chain_along() -> None:
    for kind in ("source", "sink"):
        found = split("j", kind, "b b", value_converter="j.C")
        assert (shown(found), dict(found.converters).keys()) == (("ab", ""), {"value", "header"})
        (problem,) = split("j", kind, "b p", value_converter="j.C").problems
        assert (problem.key, "because value.converter is" in problem.message) == ("transforms.b.type", True)
    assert dict(split("j", "sink", "", {"value.converter": "j.C"}).converters).keys() == {"value", "header"}
    assert dict(split("j", "sink", "b", header_converter="j.H").converters).keys() == {"header"}
    (problem,) = split("j", "sink", "b", value_converter="j.C", header_converter="p.H").problems
    assert problem.key == "header.converter"


def parts(found: ChainSplit) -> tuple[str, str, str]:
    """The aliases before those in Java, in Java and after them."""
    before, in_java, after = (
        "".join(step.alias for step in part) for part in (found.before, found.in_java, found.after)
    )
    return before, in_java, after


@pytest.mark.parametrize(
    ("kind", "types", "more", "expected"),
    [
        ("source", "p b j b j p", {}, ("ab", "cde", "f")),
        ("sink", "p b j b j p", {}, ("ab", "cde", "f")),
        ("sink", "p b:j b:p", {}, ("a", "b", "c")),
        ("source", "p b", {}, ("ab", "", "")),
        ("source", "p j b b", {"value_converter": "j.C"}, ("a", "bcd", "")),
        ("source", "p b", {"value_converter": "j.C"}, ("ab", "", "")),
        ("sink", "b b j p", {"value_converter": "j.C"}, ("", "abc", "d")),
        ("sink", "p b", {"key_converter": "j.C"}, ("", "", "ab")),
        ("sink", "b b", {"header_converter": "j.H"}, ("", "ab", "")),
    ],
)
def test_records_of_other_connectors_cross_into_java_and_back(
    kind: str, types: str, more: dict[str, str], expected: tuple[str, str, str]
) -> None:
    found = split("p", kind, types, **more)
    assert parts(found) == expected
    assert not found.problems
    assert ("header" in dict(found.converters)) == bool(expected[1] or more), "Java reads and writes headers"


@pytest.mark.parametrize(
    ("kind", "types", "more", "advice"),
    [
        ("source", "j p j", {}, "Move b before a or after c in transforms."),
        ("sink", "j p j", {}, "Move b before a or after c in transforms."),
        ("source", "j p", {"value_converter": "j.C"}, "Move b before a in transforms."),
        ("sink", "b p j", {"value_converter": "j.C"}, "Move b after c in transforms."),
        ("source", "j p", {"header_converter": "j.H"}, "Use another converter, or remove the transform b."),
    ],
)
def test_what_has_no_java_class_stands_outside_of_javas(
    kind: str, types: str, more: dict[str, str], advice: str
) -> None:
    (problem,) = split("p", kind, types, **more).problems
    assert problem.key == "transforms.b.type"
    assert problem.message.endswith(advice)


def test_java_transforms_need_a_header_converter_that_java_has() -> None:
    (problem,) = split("p", "sink", "j", header_converter="p.H").problems
    needed = "p.H has no Java class, which it needs beside the Java plugin of the transform a."
    assert (problem.key, problem.message) == ("header.converter", needed)


@pytest.mark.parametrize(
    ("connector", "kind", "types", "more", "expected"),
    [
        ("p", "sink", "b r b", {"header_converter_type": "string"}, ("abc", "", "")),
        ("p", "sink", "b r b", {}, ("a", "b", "c")),
        ("p", "source", "b r b", {"header_converter_type": "string"}, ("a", "b", "c")),
        ("p", "sink", "r j r b", {"header_converter_type": "string"}, ("a", "bc", "d")),
        ("p", "sink", "r", {"header_converter_type": "string", "value_converter": "j.C"}, ("", "a", "")),
        ("j", "sink", "b r b", {"header_converter_type": "string"}, ("abc", "", "")),
        ("j", "sink", "b r b", {}, ("a", "bc", "")),
        ("j", "source", "b r b", {}, ("", "ab", "c")),
    ],
)
def test_what_reads_headers_runs_in_java_if_only_that_knows_their_types(
    connector: str, kind: str, types: str, more: dict[str, str], expected: tuple[str, str, str]
) -> None:
    found = split(connector, kind, types, header_converter=HEADERS, **more)
    assert parts(found) == expected
    assert not found.problems


@pytest.mark.parametrize(
    ("kind", "types", "more", "alias", "why"),
    [
        ("sink", "b n p", {}, "b", f"but header.converter {HEADERS} does not give all values one. Name one that does"),
        ("source", "n", {"header_converter_type": "string"}, "a", "but in a source only Java knows them. A jar"),
        ("sink", "j n", {"header_converter_type": "string"}, "b", "but behind a Java plugin only Java knows them."),
    ],
)
def test_what_reads_headers_of_unknown_types_is_refused_without_a_jar(
    kind: str, types: str, more: dict[str, str], alias: str, why: str
) -> None:
    (problem,) = split("p", kind, types, header_converter=HEADERS, **more).problems
    assert problem.key == f"transforms.{alias}.type"
    assert why in problem.message


def test_what_reads_headers_uses_the_workers_converter() -> None:
    worker = {"header.converter": HEADERS, "header.converter.type": "string"}
    assert parts(split("p", "sink", "n", worker)) == ("a", "", "")
