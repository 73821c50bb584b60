"""The transforms of a connector, in the order of its config, each with its predicate."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Type
from headrace.config.values import read
from headrace.plugins.contracts import Decoded, Predicate, Transform
from headrace.plugins.interop.discovery import Plugins
from headrace.plugins.record_api.transform import MATCHES, RecordPredicate
from headrace.plugins.records import HeaderValues, Records
from headrace.plugins.schema import Schema
from headrace.worker.pipeline.expression_keys import key_of, together

_FRAMEWORK = ("type", "predicate", "negate", "plugin.version")
"""Settings of a transform that its own class does not declare."""


@dataclass(frozen=True)
class Step:
    """One transform with its predicate."""

    alias: str
    transform: Transform
    class_name: str
    predicate: Predicate | None
    negate: bool
    key: Hashable | None
    """All that its expressions depend on; None if that is not settled."""

    def apply(self, records: Records, told: str | None = None) -> Records:
        """Apply the transform; `told` names a new column: true for the records that the predicate let pass."""
        applies = None
        if isinstance(self.predicate, RecordPredicate):
            records = self.predicate.asked(replace(records, by=self.class_name))
        if self.predicate is not None:
            holds = F.coalesce(self.predicate.test(records), F.lit(False))
            applies = ~holds if self.negate else holds
        if told is not None:
            records = records.with_frame(records.frame.withColumn(told, F.lit(True) if applies is None else applies))
        done = self.transform.apply(replace(records, applies=applies, by=self.class_name))
        if isinstance(self.predicate, RecordPredicate):
            done = done.with_frame(done.frame.drop(MATCHES))
        return replace(done, applies=None, by="")


@dataclass(frozen=True)
class Transforms:
    """Changes records between their source or sink and the converters."""

    steps: tuple[Step, ...] = ()
    header_bytes: Callable[[Column, Schema | None], Decoded] | None = None
    headers_read: Callable[[Records], Records] = lambda records: records
    """Marks a sink's records whose headers their converter cannot read; runs before the transforms."""
    header_values: HeaderValues | None = None
    """Reads the values of a sink's headers; None if their types are not known beforehand."""
    headers_key: Hashable | None = ()
    """All that the functions of headers depend on; None if that is not settled."""

    @classmethod
    def of(
        cls,
        connector: Mapping[str, str],
        plugins: Plugins,
        header_bytes: Callable[[Column, Schema | None], Decoded],
        worker: Mapping[str, Any] = MappingProxyType({}),
        only: Collection[str] | None = None,
    ) -> Transforms:
        """Make and configure the transforms of this connector's config. Errors: ConfigError.

        `worker`: the worker's settings that they may read. `only`: the aliases of those that run on Spark; None: all.
        """
        aliases = read("transforms", Type.LIST, connector.get("transforms", ""))
        chosen = [alias for alias in aliases if only is None or alias in only]
        used = {connector.get(f"transforms.{alias}.predicate") for alias in chosen}
        named = read("predicates", Type.LIST, connector.get("predicates", ""))
        predicates = _made(
            "predicates", "predicate", [one for one in named if only is None or one in used], connector, plugins, worker
        )
        steps = []
        found = _made("transforms", "transformation", chosen, connector, plugins, worker)
        for alias, (made, class_name, own) in found.items():
            predicate = own.get("predicate")
            if predicate is not None and predicate not in predicates:
                known = ", ".join(predicates) or "none"
                problem = Problem(
                    f"transforms.{alias}.predicate",
                    predicate,
                    "No such predicate.",
                    f"Name it in predicates, where there is {known}.",
                )
                raise ConfigError(problem)
            negate = read(f"transforms.{alias}.negate", Type.BOOLEAN, own.get("negate", "false"))
            test = None if predicate is None else predicates[predicate][0]
            key = together(key_of(made), class_name, () if test is None else key_of(test), negate)
            steps.append(Step(alias, made, class_name, test, negate, key))
        return cls(tuple(steps), header_bytes)

    @property
    def expression_key(self) -> Hashable | None:
        """All that the expressions depend on; None if that is not settled."""
        return together(self.headers_key, *(step.key for step in self.steps))

    def apply(self, records: Records) -> Records:
        """Apply all transforms in their order."""
        if not self.steps:
            return records
        done = self.ready(records)
        for step in self.steps:
            done = step.apply(done)
        return done

    def ready(self, records: Records) -> Records:
        """Return the records with what steps need."""
        return replace(records, header_bytes=self.header_bytes, header_values=self.header_values)


def _made(
    key: str,
    kind: str,
    aliases: Collection[str],
    connector: Mapping[str, str],
    plugins: Plugins,
    worker: Mapping[str, Any],
) -> dict[str, tuple[Any, str, dict[str, str]]]:
    """Make the plugins of these aliases: by alias the configured plugin, its class's name and its own settings."""
    made = {}
    for alias in aliases:
        prefix = f"{key}.{alias}."
        own = {name.removeprefix(prefix): value for name, value in connector.items() if name.startswith(prefix)}
        found = plugins.find(kind, own.get("type", "").strip())
        plugin = found.load()()
        plugin.worker = worker
        plugin.configure({name: value for name, value in own.items() if name not in _FRAMEWORK})
        made[alias] = plugin, found.class_name, own
    return made
