"""The Java stage of a connector: the transforms and converters of its chain that run in Java."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.config.plugin_path.scanning import JarPlugin


class ConfiguredJar(NamedTuple):
    """A Java plugin with its config."""

    plugin: JarPlugin
    config: Mapping[str, str]


class JavaStep(NamedTuple):
    """A transform that runs in Java, with its predicate."""

    transform: ConfiguredJar
    predicate: ConfiguredJar | None = None
    negate: bool = False


@dataclass(frozen=True)
class JavaStage:
    """Steps that run in Java, in order, and the converters that run with them."""

    steps: tuple[JavaStep, ...] = ()
    converters: Mapping[str, ConfiguredJar] = field(default_factory=dict)
    """By side: `key`, `value` or `header`."""
    headers: ConfiguredJar | None = None
    """Header converter of the connector; None: Connect's default."""
    tolerate: bool = False
    """True if failed records are left out; otherwise nothing after them is written."""
    retry_timeout_ms: int = 0
    """The time for which retriable failures are retried; -1: for ever."""
    retry_delay_max_ms: int = 60_000

    def __bool__(self) -> bool:
        return bool(self.steps or self.converters)


NO_JAVA_STAGE: Final = JavaStage()
