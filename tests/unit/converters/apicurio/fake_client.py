"""Apicurio's registry in memory, as far as its converters ask it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from unittest.mock import patch

from headrace.converters.apicurio.client import Artifact, CoreClientV3, Version
from headrace.converters.registry.converter import RegistryConverter
from headrace.converters.registry.http import RegistryError

URL = {"apicurio.registry.url": "http://localhost:1/apis/registry/v3"}
GLOBAL = 1000
"""The difference of a global id to the id of its content."""

C = TypeVar("C", bound=RegistryConverter[Any])


class FakeClient(CoreClientV3):
    """Takes what is registered; global ids are those of contents and `GLOBAL`."""

    def __init__(self, config: Mapping[str, str], worker: Mapping[str, Any]) -> None:
        self.config = config
        self.texts: list[str] = []
        self.artifacts: dict[tuple[str, str], list[int]] = {}
        self.asked: list[tuple[Any, ...]] = []

    def close(self) -> None:
        """Nothing is open."""

    def add(self, text: str, group: str = "default", artifact: str = "t-value") -> int:
        """The id of the text's content, from 1."""
        if text not in self.texts:
            self.texts.append(text)
        number = self.texts.index(text) + 1
        if number not in self.artifacts.setdefault((group, artifact), []):
            self.artifacts[group, artifact].append(number)
        return number

    def content(self, ids: str, number: int) -> tuple[str, list[tuple[str, str]]]:
        """The text, which refers to no other. Errors: RegistryError."""
        place = number - (GLOBAL if ids == "globalIds" else 0)
        if not 0 < place <= len(self.texts):
            raise RegistryError(f"No {ids} {number}", 404, 404)
        return self.texts[place - 1], []

    def register(self, artifact: Artifact, text: str, version: str | None, if_exists: str, canonical: bool) -> Version:
        """The version."""
        self.asked.append(("register", artifact, version, if_exists, canonical))
        return self._of(self.add(text, artifact.group, artifact.id))

    def would_take(self, artifact: Artifact, text: str, if_exists: str) -> None:
        """Says nothing: it would."""
        self.asked.append(("would_take", artifact, if_exists))

    def find(self, artifact: Artifact, text: str, canonical: bool) -> Version:
        """The version. Errors: RegistryError."""
        number = self.texts.index(text) + 1 if text in self.texts else 0
        if number not in self.artifacts.get((artifact.group, artifact.id), []):
            raise RegistryError(f"No version of {artifact.group}/{artifact.id}", 404, 404)
        return self._of(number)

    def version(self, artifact: Artifact, number: str | None) -> Version:
        """The version. Errors: RegistryError."""
        found = self.artifacts.get((artifact.group, artifact.id), [])
        if not found or (number is not None and int(number) > len(found)):
            raise RegistryError(f"No version of {artifact.group}/{artifact.id}", 404, 404)
        return self._of(found[-1 if number is None else int(number) - 1])

    @staticmethod
    def _of(number: int) -> Version:
        return Version({"contentIds": number, "globalIds": GLOBAL + number}, "1")


def apicurio(converter: C, is_key: bool = False, only_asks: bool = False, **settings: str) -> tuple[C, FakeClient]:
    """The converter with Apicurio's settings, `_` for `-` in their names, and its empty registry."""
    made: list[FakeClient] = []

    def client(config: Mapping[str, str], worker: Mapping[str, Any]) -> FakeClient:
        made.append(FakeClient(config, worker))
        return made[-1]

    named = {
        name if "." in name and name.startswith("apicurio") else f"apicurio.registry.{name.replace('_', '-')}": value
        for name, value in settings.items()
    }
    converter.only_asks = only_asks
    with patch("headrace.converters.apicurio.schemas.CoreClientV3", client):
        converter.configure({"converter.type": "key" if is_key else "value", **URL, **named}, is_key)
    return converter, made[0]
