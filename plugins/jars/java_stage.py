"""The Java stage of a connector: the transforms and converters of its chain that run in Java."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.plugins.jars.scanning import JarPlugin


class ConfiguredJar(NamedTuple):
    """A Java plugin, and what it is configured with."""

    plugin: JarPlugin
    config: Mapping[str, str]


class JavaStep(NamedTuple):
    """A transform that runs in Java, with its predicate."""

    transform: ConfiguredJar
    predicate: ConfiguredJar | None = None
    negate: bool = False


@dataclass(frozen=True)
class JavaStage:
    """The steps that run in Java, one after the other, and the converters beside them."""

    steps: tuple[JavaStep, ...] = ()
    converters: Mapping[str, ConfiguredJar] = field(default_factory=dict)
    """By side: `key`, `value` or `header`."""
    headers: ConfiguredJar | None = None
    """The header converter of the connector; None: Connect's usual one."""
    tolerate: bool = False
    """Whether records that fail are left out; else nothing after them is written."""
    retry_timeout_ms: int = 0
    """How long what failed with a retriable error is tried again; -1: for ever."""
    retry_delay_max_ms: int = 60_000

    def __bool__(self) -> bool:
        return bool(self.steps or self.converters)


NO_JAVA_STAGE: Final = JavaStage()
