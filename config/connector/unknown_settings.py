"""Finds settings of a connector that nothing reads, such as misspelt ones; Connect ignores them silently."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from headrace.config.connector.config import UNSERVED
from headrace.config.connector.error_handling import OWN
from headrace.config.connector.removed_settings import RemovedSetting
from headrace.config.connector.settings import CONVERTER_KINDS
from headrace.config.settings import Type
from headrace.config.suggestions import nearest
from headrace.config.values import read
from headrace.config.worker.overrides import PREFIXES
from headrace.config.worker.settings import RESTART

_FREE: Final = (*PREFIXES.values(), "topic.creation.", "config.providers.", "confluent.")
"""Prefixes checked elsewhere, by Kafka's clients and topic creation, and those of Confluent's licence."""
_CONVERTERS: Final = tuple(f"{kind}.converter" for kind in CONVERTER_KINDS)
_CHAINS: Final = {"transforms": "transformation", "predicates": "predicate"}


class UnknownSetting(NamedTuple):
    """A setting that nothing reads, with the reason or a suggestion."""

    key: str
    advice: str


def unknown_settings(
    kind: str,
    config: Mapping[str, str | None],
    declared: Mapping[str, Any],
    removed: Mapping[str, RemovedSetting],
    plugin_of: Callable[[str, str], type[Any] | None],
) -> Iterator[UnknownSetting]:
    """The settings of a config that nothing reads; `declared` has all declared settings, by name.

    `removed`: settings that former versions of the plugins read.
    `plugin_of`: the class of a plugin by its kind (`connector`: source or sink; `converter`: of headers, too) and the
    setting that names it; None if it is unknown, and then all its settings count as read.
    """
    free = (*_FREE, *_free_prefixes(config, plugin_of))
    known = {*declared, *(setting.name for setting in (*OWN[kind], *RESTART)), *UNSERVED}
    for key in config:
        if key in removed:
            yield UnknownSetting(key, removed[key].advice)
        elif key not in known and not key.startswith(free):
            yield UnknownSetting(key, _advice(key, config, known))


def _advice(key: str, config: Mapping[str, str | None], known: set[str]) -> str:
    for converter in _CONVERTERS:
        if key.startswith(f"{converter}.") and config.get(converter) is None:
            return f"it has an effect only where the connector names {converter} itself; the worker's is used as it is"
    for chain in _CHAINS:
        alias = key.removeprefix(f"{chain}.").partition(".")[0]
        if key.startswith(f"{chain}.") and alias not in read(chain, Type.LIST, config.get(chain) or ""):
            return f"{chain} does not name {alias}"
    meant = nearest(key, known)
    return "nothing has a setting of this name" if meant is None else f"did you mean {meant}?"


def _free_prefixes(
    config: Mapping[str, str | None], plugin_of: Callable[[str, str], type[Any] | None]
) -> Iterator[str]:
    """Prefixes of settings that plugins read without declaring them."""
    yield from _undeclared(plugin_of("connector", "connector.class"))
    for converter in _CONVERTERS:
        if config.get(converter) is not None:
            yield f"{converter}.schemas.enable"  # common in configs, whatever the converter
            for prefix in _undeclared(plugin_of("converter", converter)):
                yield f"{converter}.{prefix}"
    for chain, kind in _CHAINS.items():
        for alias in read(chain, Type.LIST, config.get(chain) or ""):
            for prefix in _undeclared(plugin_of(kind, f"{chain}.{alias}.type")):
                yield f"{chain}.{alias}.{prefix}"


def _undeclared(plugin: type[Any] | None) -> tuple[str, ...]:
    return ("",) if plugin is None else tuple(getattr(plugin, "undeclared", ()))
