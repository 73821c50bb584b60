"""`Schemas`: what a registry's converter asks of the registry, whose protocol a subclass speaks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from headrace.converters.registry.framing import Framing

Form = TypeVar("Form")


@dataclass(frozen=True)
class RegistrySchema(Generic[Form]):
    """A schema as the registry knows it."""

    text: str
    form: Form
    record: str | None = None
    """The full name of the record, which some strategies name subjects by; None if values are no records."""


@dataclass(frozen=True)
class Chosen:
    """The registered schema that values are written with."""

    id: int
    text: str | None = None
    """None if it is the values' own schema."""


Incompatible = Callable[[str], "str | None"]
"""Returns the reason that a registered schema cannot read the values; None if it can."""


class Schemas(ABC):
    """The schemas of one side of a connector in a registry. Errors of calls: those of `client.SchemaRegistry`."""

    framing: Framing
    most: int
    """The number of schemas that the converter keeps."""

    @abstractmethod
    def check(self) -> None:
        """Checks that a registry is at the URL. Errors: ConfigError."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connections."""

    @abstractmethod
    def text(self, prefix: bytes, topic: str | None) -> str:
        """The text of the schema that a topic's bytes name in this form of `framing`; None: any topic's."""

    @abstractmethod
    def described(self, prefix: bytes) -> str:
        """The schema's name in errors, such as `id 7`."""

    def version(self, topic: str, found: RegistrySchema[Any]) -> int | None:
        """The schema's version for the topic; None if it has none there."""
        return None

    @abstractmethod
    def place(self, topic: str, own: RegistrySchema[Any]) -> str:
        """The name under which the topic's schemas are registered. Errors: DataError if the schema lacks a name."""

    @abstractmethod
    def choose(self, topic: str, own: RegistrySchema[Any], incompatible: Incompatible) -> Chosen:
        """The schema to write values of `own` with, registered if need be; asks only if `only_asks` was set."""

    @abstractmethod
    def is_registered(self, schema_id: int) -> bool:
        """False for a number that `choose` gave in place of an id that does not exist yet."""

    @abstractmethod
    def prefix(self, schema_id: int) -> bytes:
        """The bytes before a value of this schema."""

    @property
    def asked_again_s(self) -> float:
        """Seconds until `choose` may answer otherwise."""
        return math.inf
