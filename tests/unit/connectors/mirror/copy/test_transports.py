"""Connections: why a login is refused is told although the broker closes, and all of a request goes out."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import errors
from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeResponse

from headrace.connectors.mirror.copy.transports import Connections, _PlainTransport
from headrace.plugins.interop.kafka.kafka_python_internals import NetworkSelector

VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36
SERVED = {VERSIONS: 3, HANDSHAKE: 1, AUTHENTICATE: 1, 3: 8}


def answered(key: int, version: int) -> Any:
    if key == VERSIONS:
        served = [ApiVersionsResponse.ApiVersion(api_key=k, min_version=0, max_version=v) for k, v in SERVED.items()]
        return ApiVersionsResponse(version=version, error_code=0, throttle_time_ms=0, api_keys=served)
    if key == HANDSHAKE:
        return SaslHandshakeResponse(version=version, error_code=0, mechanisms=["PLAIN"])
    refused = errors.SaslAuthenticationFailedError.errno
    return SaslAuthenticateResponse(
        version=version, error_code=refused, error_message="bad password", auth_bytes=b"", session_lifetime_ms=0
    )


def serve(connection: socket.socket) -> None:
    """A broker that closes as soon as it has refused a login."""
    with connection, connection.makefile("rwb") as stream:
        key = None
        while key != AUTHENTICATE and (size := stream.read(4)):
            request = stream.read(int.from_bytes(size, "big"))
            key, version, correlation = struct.unpack_from(">hhi", request)
            answer = struct.pack(">i", correlation) + answered(key, version).encode(version=version)
            stream.write(len(answer).to_bytes(4, "big") + answer)
            stream.flush()


@pytest.fixture
def refusing() -> Iterator[str]:
    """The address of brokers that refuse logins."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            try:
                while True:
                    serve(listening.accept()[0])
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


def test_a_refused_login_is_told_although_the_broker_closes_at_once(refusing: str) -> None:
    for _ in range(5):
        net = NetworkSelector()
        manager = Connections(
            net,
            bootstrap_servers=refusing,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="user",
            sasl_plain_password="password",
            receive_message_max_bytes=1 << 20,
        )
        with pytest.raises(errors.KafkaError):
            net.run(manager.bootstrap_async, 300)
        assert isinstance(manager.failure, errors.SaslAuthenticationFailedError), repr(manager.failure)
        manager.close()


def test_an_attempt_that_the_time_limit_cuts_short_hides_no_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        net = NetworkSelector()
        manager = Connections(
            net,
            bootstrap_servers=f"127.0.0.1:{listening.getsockname()[1]}",
            receive_message_max_bytes=1 << 20,
        )
        reason = errors.KafkaConnectionError("its certificate is not trusted")
        manager.failure = reason
        with pytest.raises(errors.KafkaError):
            net.run(manager.bootstrap_async, 200)  # it accepts, and never answers
        assert manager.failure is reason
        manager.failure = None
        with pytest.raises(errors.KafkaError):
            net.run(manager.bootstrap_async, 200)
        assert manager.failure is not None, "it is all that is known"
        manager.close()


def test_the_pieces_of_a_request_go_out_in_order_however_much_is_taken_at_once() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        transport = _PlainTransport(SimpleNamespace(call_soon=lambda _: None), ours, host="h")
        pieces = [bytes([n % 256]) * (n * 7 % 5000 + 1) for n in range(1500)]
        transport.write([memoryview(piece) for piece in pieces])
        wanted, got = b"".join(pieces), b""
        while len(got) < len(wanted):
            assert transport.send_some(transport._write_buffer)[1] is None
            got += theirs.recv(1 << 20)
        assert got == wanted
