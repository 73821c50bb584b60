"""A worker's properties from `CONNECT_*` environment variables, as in the images of Kafka Connect.

    CONNECT_BOOTSTRAP_SERVERS       bootstrap.servers       _ is .
    CONNECT_METRICS_CONTEXT_A__B    metrics.context.a_b     __ is _
    CONNECT_METRICS_CONTEXT_A___B   metrics.context.a-b     ___ is -

Confluent's documentation swaps the last two; its images and Apache's do as above.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Final

from headrace.config.worker.listeners import Listener, parse_listener

_PREFIX: Final = "CONNECT_"
_OF_THE_IMAGE: Final = ("CONNECT_LOG4J_", "CONNECT_CUB_", "CONNECT_REST_PORT")
"""No properties: log levels (`worker/logging/logs.py`), waiting for brokers (the worker does), the port."""
_SIGNS: Final = {"_": ".", "__": "_", "___": "-"}
_SWAPPED: Final = str.maketrans("_-", "-_")
_DEFAULT_PORT: Final = "8083"


def property_name(variable: str) -> str:
    """The property for a variable without its prefix."""
    return re.sub("_{1,3}", lambda found: _SIGNS[found[0]], variable.lower())


def properties_from(environment: Mapping[str, str]) -> dict[str, str]:
    """The properties that these variables set."""
    props = {
        property_name(variable.removeprefix(_PREFIX)): value
        for variable, value in environment.items()
        if variable.startswith(_PREFIX) and not variable.startswith(_OF_THE_IMAGE)
    }
    if (port := environment.get("CONNECT_REST_PORT")) and "listeners" not in props:
        props["listeners"] = f"http://:{port}"
    return props


def misread(props: Mapping[str, str], known: Container[str]) -> dict[str, str]:
    """Unknown properties, each with the property that Confluent's documentation would make of the variable."""
    other = {name: name.translate(_SWAPPED) for name in props if name not in known}
    return {name: meant for name, meant in other.items() if meant in known}


def own_url(props: Mapping[str, str]) -> str:
    """The worker's URL on its own machine; http if it has that. Errors: ConfigError."""
    listeners = [parse_listener(one.strip()) for one in props.get("listeners", f"http://:{_DEFAULT_PORT}").split(",")]
    listener = next((one for one in listeners if one.scheme == "http"), listeners[0])
    return str(Listener(listener.scheme, listener.host if listener.host.strip("0.:") else "127.0.0.1", listener.port))
