"""Avro schemas with annotations, in few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

Type = str | dict[str, Any]

TIMES: Final = {"min": 1487715775521, "max": 1519273364600}
"""Milliseconds in 2017 and 2018."""
START_MS: Final = 1609459200000
"""The beginning of 2021."""


class Quickstart(NamedTuple):
    """A ready schema, and the field that is the key of its records."""

    key: str
    schema: dict[str, Any]


def record(name: str, /, **fields: Type) -> dict[str, Any]:
    """Return a record of these fields."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": type_} for field, type_ in fields.items()],
    }


def one_of(name: str, options: Sequence[Mapping[str, Any]], /, **fields: Type) -> dict[str, Any]:
    """Return a record of these fields that is one of the options as a whole."""
    return {**record(name, **fields), "arg.properties": {"options": list(options)}}


def counted(type_: str, start: float = 0, step: float = 1, **more: Any) -> Type:
    """Return a type that counts from record to record."""
    return {"type": type_, "arg.properties": {"iteration": {"start": start, "step": step}}, **more}


def ranged(type_: str, least: float, end: float, **more: Any) -> Type:
    """Return a type of numbers from `least` up to, and without, `end`."""
    return {"type": type_, "arg.properties": {"range": {"min": least, "max": end}}, **more}


def matching(regex: str) -> Type:
    """Return texts of this regular expression."""
    return {"type": "string", "arg.properties": {"regex": regex}}


def any_of(values: Sequence[Any], type_: str = "string") -> Type:
    """Return a type that is one of these values."""
    return {"type": type_, "arg.properties": {"options": list(values)}}


def stamped(step_ms: int, start_ms: int = START_MS) -> Type:
    """Return timestamps that go on by this step."""
    return counted("long", start_ms, step_ms, logicalType="timestamp-millis")


def addresses(network: str, count: int) -> list[str]:
    """Return so many addresses of a network that is reserved for documentation, such as `192.0.2`."""
    return [f"{network}.{number}" for number in range(1, count + 1)]


def full_names(count: int) -> list[tuple[str, str]]:
    """Return so many different pairs of first and last names."""
    pairs = [(first, last) for last in LAST_NAMES for first in FIRST_NAMES]
    # Neighbours differ in both names.
    return [pairs[(number * 41) % len(pairs)] for number in range(count)]


FIRST_NAMES: Final = (
    *("Amira", "Bastian", "Celine", "Dario", "Edda", "Farid", "Greta", "Hamza", "Ilka", "Jorge", "Kirsi", "Lorenz"),
    *("Mirela", "Nuno", "Oona", "Piotr", "Rania", "Soren", "Tilda", "Yusuf"),
)
LAST_NAMES: Final = (
    *("Abend", "Brook", "Castell", "Dunham", "Eklund", "Fontana", "Grau", "Holm", "Ivanek", "Jansen"),
    *("Kowal", "Lindt", "Moreau", "Nyberg", "Oduya", "Petrov", "Quist", "Rossi", "Sato", "Tamm"),
)
