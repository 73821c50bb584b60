"""The transforms of a connector by where they run: before, in and after the Java stage of its chain."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.config.connector.config import converter_config
from headrace.config.connector.enrichment import APPLIES, PluginClass, PluginLookup
from headrace.config.connector.error_handling import ErrorHandling
from headrace.config.connector.java_stage import ChainStep, converter_lookup, split_chain
from headrace.config.plugin_path import ConfiguredJar, JarPlugin, JavaStage, JavaStep
from headrace.config.problems import ConfigError
from headrace.config.settings import Type
from headrace.config.values import read
from headrace.plugins.interop.discovery import PluginEntry, Plugins

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SplitTransforms:
    """The transforms of one connector, by where they run."""

    java_stage: JavaStage
    before: tuple[str, ...]
    """The aliases of those on Spark before those in Java."""
    after: tuple[str, ...]
    """The aliases of those on Spark after those in Java."""
    comes_back: bool = False
    """True if records cross into the Java stage and come back: the connector is not from a jar."""

    @property
    def on_spark(self) -> tuple[str, ...]:
        """The aliases of all on Spark."""
        return self.before + self.after

    @classmethod
    def of(
        cls,
        about: str,
        connector: Mapping[str, str],
        worker: Mapping[str, str],
        plugin: PluginEntry,
        plugins: Plugins,
        handling: ErrorHandling,
    ) -> SplitTransforms:
        """Split the transforms of this connector, whose class is `plugin`; logs those that run in Java.

        Errors: ConfigError.
        """
        split = split_chain(plugin, connector, plugins, worker)
        if split.problems:
            raise ConfigError(list(split.problems), "The connector")
        in_java, after = (tuple(step.alias for step in part) for part in (split.in_java, split.after))
        aliases = read("transforms", Type.LIST, connector.get("transforms", ""))
        before = tuple(alias for alias in aliases if alias not in (*in_java, *after))
        converters = {
            side: ConfiguredJar(_java_class(one), converter_config(side, connector, worker).props)
            for side, one in split.converters
        }
        if in_java or converters:
            log.info(
                "%s: the transforms in the Java host are: %s, those on Spark: %s; the converters in the Java host: %s",
                *(about, _listed(in_java), _listed(before + after), _listed(converters)),
            )
        java_stage = JavaStage(
            tuple(_step(step, connector) for step in split.in_java),
            converters,
            _headers(about, connector, worker, converter_lookup("header", connector, plugins, plugin))
            if plugin.from_jar
            else None,
            handling.tolerate,
            handling.retry_timeout_ms,
            handling.retry_delay_max_ms,
        )
        return cls(java_stage, before, after, comes_back=bool(java_stage) and not plugin.from_jar)


def _headers(
    about: str, connector: Mapping[str, str], worker: Mapping[str, str], plugins: PluginLookup
) -> ConfiguredJar | None:
    """The Java header converter of the connector or worker; None, and logged, if its class is not in Java."""
    named = converter_config("header", connector, worker)
    found = _in_java(plugins.find("header_converter", named.class_name))
    if found is None:
        log.warning(
            "%s: its headers are those of SimpleHeaderConverter, because header.converter %s has no Java class, which "
            "it needs with a connector from a jar. Name one that has.",
            *(about, named.class_name),
        )
    return None if found is None else ConfiguredJar(found, named.props)


def _step(step: ChainStep, connector: Mapping[str, str]) -> JavaStep:
    transform = _configured(step.transform, f"transforms.{step.alias}.", connector)
    own = {name: value for name, value in transform.config.items() if name not in APPLIES}
    predicate = None
    if step.predicate is not None:
        predicate = _configured(step.predicate, f"predicates.{step.predicate_alias}.", connector)
    negate = read(f"transforms.{step.alias}.negate", Type.BOOLEAN, transform.config.get("negate", "false"))
    return JavaStep(transform._replace(config=own), predicate, negate)


def _configured(plugin: PluginClass, prefix: str, connector: Mapping[str, str]) -> ConfiguredJar:
    """The plugin's Java class with the settings under this prefix; as in Java, `type` is among them."""
    own = {key.removeprefix(prefix): value for key, value in connector.items() if key.startswith(prefix)}
    own.pop("plugin.version", None)
    return ConfiguredJar(_java_class(plugin), own)


def _java_class(plugin: PluginClass) -> JarPlugin:
    found = _in_java(plugin)
    assert found is not None, "`split_chain` refuses all others"
    return found


def _in_java(plugin: PluginClass) -> JarPlugin | None:
    return plugin.in_java if isinstance(plugin, PluginEntry) else None


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
