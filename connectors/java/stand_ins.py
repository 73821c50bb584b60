"""Classes that represent Java transforms, predicates and converters: they have the settings, and run in Java.

`config/connector/java_stage.py` always puts them into the Java stage, so their expressions are never asked for.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from pyspark.sql import Column

from headrace.config.plugin_path import JarPlugin
from headrace.config.problems import ConfigError, Problem
from headrace.plugins.contracts import Converter, Decoded, Predicate, Transform
from headrace.plugins.errors import DataError
from headrace.plugins.records import Records
from headrace.plugins.schema import Schema


class JavaTransform(Transform):
    """Base of the classes that `plugin.part` makes for transforms."""

    jar: ClassVar[JarPlugin]

    def apply(self, records: Records) -> Records:
        """Refuse. Errors: ConfigError."""
        _refuse(self.jar)


class JavaPredicate(Predicate):
    """Base of the classes that `plugin.part` makes for predicates."""

    jar: ClassVar[JarPlugin]

    def test(self, records: Records) -> Column:
        """Refuse. Errors: ConfigError."""
        _refuse(self.jar)


class JavaConverter(Converter):
    """Base of the classes that `plugin.part` makes for converters, including header converters."""

    jar: ClassVar[JarPlugin]

    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        """Refuse. Errors: ConfigError."""
        _refuse(self.jar)

    def identify(self, data: Column) -> Column:
        """Refuse. Errors: ConfigError."""
        _refuse(self.jar)

    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        """Refuse. Errors: ConfigError."""
        _refuse(self.jar)

    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """Refuse. Errors: ConfigError."""
        _refuse(self.jar)

    def shown(self, data: bytes) -> str | None:
        """Refuse. Errors: DataError."""
        raise DataError(f"{self.jar.class_name} is a Java plugin, whose bytes only the Java host reads")


def _refuse(jar: JarPlugin) -> NoReturn:
    text = f"{jar.class_name} is a Java plugin, which does not run on Spark"
    raise ConfigError(Problem(jar.kind, jar.class_name, text, "Use it in a connector's config."))


STAND_INS: dict[str, type[Any]] = {
    "transformation": JavaTransform,
    "predicate": JavaPredicate,
    "converter": JavaConverter,
    "header_converter": JavaConverter,
}
