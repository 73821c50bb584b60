"""Kafka's protocol over a connection without copies of records: answers stay where they arrived, and are sent on.

kafka-python copies an answer seven times and a request twice. Here an answer is received into memory of its own size,
its records are views of that, and a request is sent as pieces, its records among them.

Decided: the layouts of both messages are kafka-python's, with another codec for the field of the records, because they
hold for each version of a broker; loses: the codecs follow the code that kafka-python makes of its layouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from io import BytesIO
from struct import pack_into
from typing import Any, Final, NamedTuple

from kafka.net.connection import KafkaConnection
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.data_container import DataContainer
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.producer.produce import ProduceRequest
from kafka.protocol.schemas import StructField, load_json
from kafka.protocol.schemas.fields.codecs import Bytes, EncodeBuffer, UnsignedVarInt32

_FIRST_BYTES: Final = 1 << 16
"""Answers up to this size may come several at once, and are copied once."""
_LENGTH_BYTES: Final = 4
Pieces = Sequence[bytes | bytearray | memoryview]


class _Views(Bytes):  # type: ignore[misc]
    """Bytes that are read as a view of the answer."""

    @classmethod
    def emit_decode_from(cls, ctx: Any, var_name: str, indent: str, compact: bool = False) -> None:
        length = ctx.next_var("length")
        if compact:
            UnsignedVarInt32.emit_decode_from(ctx, length, indent)
            ctx.emit(indent, f"{length} -= 1")
        else:
            ctx.emit(indent, f"{length} = unpack_from('>i', data, pos)[0]")
            ctx.emit(indent, "pos += 4")
        ctx.emit(indent, f"{var_name} = None")
        ctx.emit(indent, f"if {length} >= 0:")
        ctx.emit(indent, f"    {var_name} = data[pos:pos + {length}]")
        ctx.emit(indent, f"    pos += {length}")


class _Apart(Bytes):  # type: ignore[misc]
    """Bytes in pieces, which are noted beside the request with their position in it."""

    @classmethod
    def emit_encode_into(cls, ctx: Any, val_expr: str, indent: str, compact: bool = False) -> None:
        length = ctx.next_var("length")
        ctx.emit(indent, f"{length} = sum(map(len, {val_expr}))")
        if compact:
            ctx.emit(indent, f"{length} += 1")
            UnsignedVarInt32.emit_encode_into(ctx, length, indent)
        else:
            ctx.emit_reserve(indent, 4)
            ctx.emit(indent, f"pack_into('>i', buf, pos, {length})")
            ctx.emit(indent, "pos += 4")
        ctx.emit(indent, f"out.apart.append((pos, {val_expr}))")


def _layout(message: str, codec: type[Bytes]) -> StructField:
    """The layout of a message, with this codec for records."""
    layout = StructField(load_json(message))
    for field in _fields(layout):
        if field.name == "records":
            field._type = codec
    return layout


def _fields(layout: StructField) -> Iterator[Any]:
    for field in layout.fields.values():
        yield field
        if field.is_struct_array():
            yield from _fields(field.array_of)


class _FetchAnswer(DataContainer):  # type: ignore[misc]
    """A FetchResponse whose records are views."""

    _struct = _layout("FetchResponse", _Views)


class _Request(EncodeBuffer):  # type: ignore[misc]
    """A written request without its records."""

    __slots__ = ("apart",)

    def __init__(self) -> None:
        super().__init__(1 << 10)
        self.apart: list[tuple[int, Pieces]] = []

    def pieces(self) -> Iterator[bytes | bytearray | memoryview]:
        written, at = memoryview(self.buf), 0
        for end, records in self.apart:
            yield written[at:end]
            yield from records
            at = end
        yield written[at : self.pos]


@cache
def _produce(version: int) -> Any:
    compact = ProduceRequest.flexible_version_q(version)
    return _layout("ProduceRequest", _Apart).compiled_encode_into(version, compact=compact, tagged=compact)


@cache
def _fetched(version: int) -> Any:
    compact = FetchResponse.flexible_version_q(version)
    layout = _FetchAnswer._struct
    return layout.compiled_decode_from(version, compact=compact, tagged=compact, data_class=_FetchAnswer)


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
        return _fetched(self.version)(answer.rest(), 0)[0]


class Wire(KafkaProtocol):  # type: ignore[misc]
    """Requests and answers of one connection."""

    def __init__(self, connection: KafkaConnection) -> None:
        config = connection.config
        super().__init__(
            client_id=config["client_id"],
            receive_message_max_bytes=config["receive_message_max_bytes"],
            ident=f"node={connection.node_id}",
        )
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
        """Take the bytes that arrived at the beginning of `room`; return the whole answers.

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
            self._validate_frame_size(size)
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
        return self._process_response(_Records(answer) if is_fetch else BytesIO(answer))

    def send_request(self, request: Any, correlation_id: int | None = None) -> int:
        """Have the request sent; return its correlation id."""
        correlation: int
        if isinstance(request, ProduceRequest):
            correlation = self._next_correlation_id()
            request.with_header(correlation_id=correlation, client_id=self._client_id)
            self.bytes_to_send.extend(_in_pieces(request))
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


def _in_pieces(request: Any) -> Pieces:
    """A produce request with its header, as it is sent; its records are given as pieces."""
    out = _Request()
    out.pos = _LENGTH_BYTES
    request.encode_header_into(out, flexible=request.flexible_version_q(request.API_VERSION))
    _produce(request.API_VERSION)(request, out)
    pieces = [piece for piece in out.pieces() if len(piece)]  # before version 9 nothing follows the records
    pack_into(">i", out.buf, 0, sum(map(len, pieces)) - _LENGTH_BYTES)
    return pieces
