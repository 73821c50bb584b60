"""Reaches librdkafka for calls that confluent-kafka does not make: its functions, and a client's handle.

The library is the one that confluent-kafka brings: its symbols are reached through that package's extension module, so
that both are always the same library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import c_void_p
from typing import Any, Final

from confluent_kafka import Consumer, Producer, cimpl

_BYTES: Final = 176
"""The size of confluent-kafka's struct of a client, whose first member is librdkafka's client."""
_CLIENTS: Final = (Consumer, Producer, cimpl._AdminClientImpl)


def functions(signatures: Mapping[str, tuple[Any, ...]], library: ctypes.CDLL | None = None) -> dict[str, Any]:
    """Functions by their names without `rd_kafka_`; a signature is the result's type and those of the arguments.

    Errors: ImportError.
    """
    found, library = {}, library or ctypes.CDLL(cimpl.__file__)
    for name, (result, *arguments) in signatures.items():
        try:
            function = library[f"rd_kafka_{name}"]
        except AttributeError as error:
            raise ImportError(
                f"librdkafka's rd_kafka_{name} cannot be reached through {cimpl.__file__}: confluent-kafka was built "
                "so that it hides librdkafka. Install its wheel (pip install --only-binary :all: confluent-kafka)."
            ) from error
        function.restype, function.argtypes = result, arguments
        found[name] = function
    return found


def handle_of(client: Any) -> c_void_p | None:
    """librdkafka's client behind this one, valid while this lives; None if confluent-kafka's layout is unknown."""
    kind = next((one for one in _CLIENTS if isinstance(client, one)), None)
    if kind is None or kind.__basicsize__ != _BYTES:
        return None
    return c_void_p.from_address(id(client) + object.__basicsize__)
