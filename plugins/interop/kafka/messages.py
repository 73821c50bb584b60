"""Messages of confluent-kafka's consumer."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any, Final, Protocol, TypeAlias

from headrace.plugins.errors import DataError

Headers: TypeAlias = "list[tuple[str, bytes | None]]"


class KafkaMessage(Protocol):
    """A message of confluent-kafka's consumer."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def timestamp(self) -> tuple[int, int]: ...
    def headers(self) -> Headers | None: ...
    def key(self) -> Any: ...
    def value(self) -> Any: ...


_headers: Final[Callable[[KafkaMessage], Headers | None]] = methodcaller("headers")
"""Calls the method from C code; see `headers_of`."""


def headers_of(message: KafkaMessage) -> Headers | None:
    """Return the message's headers; called once for each message. Errors: DataError if the name of one is not UTF-8.

    confluent-kafka (2.16) then answers with a list that has a null pointer, and an error set. If C code calls the
    method, Python sees the error; called from Python 3.11 and newer, the process may end. A second call has no error.
    """
    try:
        return _headers(message)
    except SystemError as error:
        raise odd_header(message) from error


def odd_header(message: KafkaMessage) -> DataError:
    """Return the error for a message that has a header whose name is not UTF-8."""
    return DataError(
        f"The record of {message.topic()}-{message.partition()} at offset {message.offset()} has a header whose name "
        "is not UTF-8, which confluent-kafka cannot read. To pass over it, stop the connector, set the offset of the "
        "partition to one after it (PATCH /connectors/<name>/offsets) and resume the connector"
    )
