"""The part of a connector's chain that runs in the host, as the worker tells the host of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.plugins.jars import ConfiguredJar, JarPlugin, JavaChain


def named(plugin: JarPlugin) -> dict[str, Any]:
    """A class with its jars, as the host is told of it; without jars it is one of Connect's own."""
    jars = [str(jar) for jar in plugin.jars]
    return {"class": plugin.class_name, "location": str(plugin.location), "jars": jars}


def headers_of(chain: JavaChain) -> Mapping[str, Any] | None:
    """What the host reads and makes headers with, where the chain does not; None: the usual one."""
    return None if chain.headers is None else _configured(chain.headers)


def chain_of(chain: JavaChain) -> dict[str, Any] | None:
    """What the host needs to make this chain; None where there is nothing to do."""
    if not chain:
        return None
    links = [
        {
            "transform": _configured(link.transform),
            "predicate": None if link.predicate is None else _configured(link.predicate),
            "negate": link.negate,
        }
        for link in chain.links
    ]
    return {
        "links": links,
        "converters": {side: _configured(one) for side, one in chain.converters.items()},
        "tolerate": chain.tolerate,
        "retry_ms": chain.retry_timeout_ms,
        "most_delay_ms": chain.retry_delay_max_ms,
    }


def _configured(given: ConfiguredJar) -> Mapping[str, Any]:
    return {"plugin": named(given.plugin), "config": dict(given.config)}
