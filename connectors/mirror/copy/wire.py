"""Kafka's protocol over a connection without copies of records: answers stay where they arrived, and are sent on.

kafka-python copies an answer seven times and a request twice. Here an answer is received into memory of its own size,
its records are views of that, and a request is sent as pieces, its records among them.

Decided: the layouts of both messages are kafka-python's, with another codec for the field of the records, because they
hold for each version of a broker; loses: the codecs (`kafka_python_internals`) follow the code that it makes of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any, Final, NamedTuple

from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.producer.produce import ProduceRequest

from headrace.plugins.interop.kafka.kafka_python_internals import KafkaConnection, Pieces, Protocol, fetched, pieces_of

_FIRST_BYTES: Final = 1 << 16
"""Answers up to this size may come several at once, and are copied once."""
_LENGTH_BYTES: Final = 4


class _Records:
    """A fetch request's answer, read from beginning to end."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def read(self, count: int | None = None) -> bytes:
        return bytes(self.rest() if count is None else self._take(count))

    def seek(self, at: int) -> None:
        self._at = at

    def rest(self) -> memoryview:
        return self._take(len(self._data) - self._at)

    def _take(self, count: int) -> memoryview:
        start, self._at = self._at, min(self._at + count, len(self._data))
        return self._data[start : self._at]


class _Fetch(NamedTuple):
    """A pending fetch request; stands in for its header and for the class of its answer."""

    correlation_id: int
    version: int

    def get_response_class(self) -> _Fetch:
        return self

    def parse_header(self, answer: _Records) -> Any:
        return FetchResponse[self.version].parse_header(answer)

    def decode(self, answer: _Records) -> Any:
        """The answer without its header."""
        return fetched(answer.rest(), self.version)


class BrokerWire(Protocol):
    """Requests and answers of one connection."""

    def __init__(self, connection: KafkaConnection) -> None:
        super().__init__(connection)
        self.bytes_to_send: list[bytes | bytearray | memoryview] = []
        self._first = memoryview(bytearray(_FIRST_BYTES))
        """Answers begin to arrive here."""
        self._arrived = 0
        """The taken part of `_first`, or of the answer."""
        self._answer: memoryview | None = None
        """An answer that did not arrive whole at first."""

    @property
    def room(self) -> memoryview:
        """The memory for the next bytes."""
        return (self._first if self._answer is None else self._answer)[self._arrived :]

    def receive_bytes(self, data: memoryview) -> list[Any]:
        """Take `data`, received into the beginning of `room`; return the answers that are complete now.

        Errors: KafkaProtocolError.
        """
        self._arrived += len(data)
        if self._answer is None:
            return list(self._begun())
        if self._arrived < len(self._answer):
            return []
        answer, self._answer, self._arrived = self._answer, None, 0
        return [self._read(answer)]

    def _begun(self) -> Iterator[Any]:
        """The whole answers in `_first`; the rest of another arrives in its own memory."""
        at, arrived = 0, self._arrived
        while (begin := at + _LENGTH_BYTES) <= arrived:
            size = int.from_bytes(self._first[at:begin], "big", signed=True)
            self.check_size(size)
            answer, at = memoryview(bytearray(size)), min(begin + size, arrived)
            answer[: at - begin] = self._first[begin:at]
            if at - begin < size:
                self._answer, self._arrived = answer, at - begin
                return
            yield self._read(answer)
        self._arrived = arrived - at
        self._first[: self._arrived] = bytes(self._first[at:arrived])

    def _read(self, answer: memoryview) -> Any:
        is_fetch = bool(self.in_flight_requests) and isinstance(self.in_flight_requests[0], _Fetch)
        return self.answer_in(_Records(answer) if is_fetch else BytesIO(answer))

    def send_request(self, request: Any, correlation_id: int | None = None) -> int:
        """Have the request sent; return its correlation id."""
        correlation: int
        if isinstance(request, ProduceRequest):
            correlation = self.add_header(request)
            self.bytes_to_send.extend(pieces_of(request))
            self.in_flight_requests.append(request.header)
            return correlation
        correlation = super().send_request(request, correlation_id)
        if isinstance(request, FetchRequest):
            self.in_flight_requests[-1] = _Fetch(correlation, request.API_VERSION)
        return correlation

    def send_bytes(self) -> Pieces:
        """Take the bytes to be sent, in pieces."""
        pieces: Pieces = self.bytes_to_send
        self.bytes_to_send = []
        return pieces
