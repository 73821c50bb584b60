"""A schema registry in memory, as far as AvroConverter asks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from headrace.converters.registry.confluent import ConfluentSchemas
from headrace.converters.registry.converter import RegistryConverter
from headrace.plugins.contracts import DataError


class FakeRegistry:
    """Takes what is registered, unless its subject is in `refused`."""

    def __init__(
        self,
        config: Mapping[str, str] | None = None,
        inline: object = None,
        worker: object = None,
        only_asks: bool = False,
        kind: str = "AVRO",
    ) -> None:
        self.texts: list[str] = []
        self.subjects: dict[str, list[int]] = {}
        self.refused: dict[str, str] = {}

    def register(self, subject: str, text: str, normalize: bool = False) -> int:
        """The id of the text, from 1."""
        if subject in self.refused:
            raise DataError(self.refused[subject])
        if text not in self.texts:
            self.texts.append(text)
        number = self.texts.index(text) + 1
        if number not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(number)
        return number

    def is_registered(self, schema_id: int) -> bool:
        """True: all are."""
        return True

    def lookup(self, subject: str, text: str, normalize: bool = False) -> tuple[int, int]:
        """Id and version. Errors: DataError."""
        number = self.texts.index(text) + 1 if text in self.texts else 0
        if number not in self.subjects.get(subject, []):
            raise DataError("Schema not found; error code: 40403")
        return number, self.subjects[subject].index(number) + 1

    def version_of(self, subject: str, text: str, normalize: bool = False) -> int:
        """The version. Errors: DataError."""
        return self.lookup(subject, text)[1]

    def latest(self, subject: str) -> tuple[int, int, str]:
        """Id, version and text. Errors: DataError."""
        if subject not in self.subjects:
            raise DataError(f"Subject '{subject}' not found.; error code: 40401")
        versions = self.subjects[subject]
        return versions[-1], len(versions), self.texts[versions[-1] - 1]

    def latest_with(self, subject: str, metadata: Mapping[str, str]) -> tuple[int, int, str]:
        """Id, version and text. Errors: DataError."""
        return self.latest(subject)

    def close(self) -> None:
        """Nothing is open."""

    def schema(self, schema_id: int, subject: str | None = None) -> str:
        """The text. Errors: DataError."""
        if not 0 < schema_id <= len(self.texts):
            raise DataError(f"Schema {schema_id} not found; error code: 40403")
        return self.texts[schema_id - 1]

    def by_guid(self, guid: str) -> str:
        """The text of the schema whose id is in the GUID's last bytes. Errors: DataError."""
        return self.schema(UUID(guid).int)


def registry_of(converter: RegistryConverter[Any]) -> FakeRegistry:
    """The registry that a converter was made with."""
    assert isinstance(converter.schemas, ConfluentSchemas)
    found: Any = converter.schemas.registry
    assert isinstance(found, FakeRegistry)
    return found
