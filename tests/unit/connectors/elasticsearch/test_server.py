"""Requests to a cluster: which servers are taken, logins, nodes, TLS, and what answers mean."""

from __future__ import annotations

import base64
import gzip
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.session import Session

from headrace.config.settings import ConfigError
from headrace.connectors.elasticsearch.access import Access
from headrace.connectors.elasticsearch.bulk import Piece, Sender
from headrace.connectors.elasticsearch.options import Flavour
from headrace.connectors.elasticsearch.parsing import options
from headrace.connectors.elasticsearch.server import NotThere, Refused, Server, ServerBusy
from headrace.plugins.errors import LoginRefused
from headrace.plugins.interop.http.client import HttpAnswer, HttpClient, ServerUnavailable
from tests.certificates import Authority
from tests.unit.connectors.elasticsearch.elasticsearch_rig import rows_of
from tests.unit.connectors.elasticsearch.fake_server import FakeServer

WORKER = {"connector.allowed.hosts": ["127.0.0.1"]}


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.close()


def server(url: str, flavour: Flavour = Flavour.CONFLUENT, worker: Any = WORKER, **config: str) -> Server:
    given = {"read.timeout.ms": "60000", **{key.replace("_", "."): value for key, value in config.items()}}
    return Server(Access.of({"connection.url": url, **given}, flavour, worker))


def elasticsearch(number: str) -> Any:
    return {"version": {"number": number}, "tagline": "any"}


@pytest.mark.parametrize("number", ["2.19.3", "3.4.0"])
def test_opensearch_is_taken(fake: FakeServer, number: str) -> None:
    fake.root = {"version": {"number": number, "distribution": "opensearch"}}
    server(fake.url).check()


@pytest.mark.parametrize("number", ["8.19.1", "9.2.0"])
def test_elasticsearch_is_taken_by_its_header(fake: FakeServer, number: str) -> None:
    fake.root = elasticsearch(number)
    fake.headers = {"X-Elastic-Product": "Elasticsearch"}
    server(fake.url).check()


@pytest.mark.parametrize("root", [elasticsearch("8.1.0"), {}, [], "text", {"version": "1"}], ids=str)
def test_another_server_is_refused(fake: FakeServer, root: Any) -> None:
    fake.root = root
    with pytest.raises(ConfigError, match="neither Elasticsearch nor OpenSearch"):
        server(fake.url).check()


@pytest.mark.parametrize("status", [200, 302, 404])
def test_a_page_is_no_server(fake: FakeServer, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    monkeypatch.setattr(HttpClient, "exchange", lambda *given, **more: HttpAnswer(status, b"<html>"))
    with pytest.raises(ConfigError, match="neither Elasticsearch nor OpenSearch"):
        server(fake.url).check()


def test_an_old_one_is_refused(fake: FakeServer) -> None:
    fake.root, fake.headers = elasticsearch("6.8.0"), {"X-Elastic-Product": "Elasticsearch"}
    with pytest.raises(ConfigError, match=r"elasticsearch 6\.8\.0, which is too old"):
        server(fake.url).check()


def test_logins(fake: FakeServer) -> None:
    def sent(flavour: Flavour = Flavour.CONFLUENT, url: str = fake.url, **config: str) -> str:
        server(url, flavour, **config).check()
        return fake.requests[-1].headers.get("Authorization", "")

    basic = "Basic " + base64.b64encode(b"u:p@:").decode()
    login = {"connection_username": "u", "connection_password": "p@:"}
    assert sent(**login) == basic
    assert sent() == ""
    assert sent(auth_type="NONE", **login) == ""
    assert sent(auth_type="api_key", api_key_value="a2V5", **login) == "ApiKey a2V5"
    with_login = fake.url.replace("//", "//u:p%40%3A@")
    assert sent(Flavour.AIVEN_OPENSEARCH, with_login) == basic
    assert sent(url=with_login) == "", "Confluent's leaves it out"
    keys = {"aws.access_key_id": "AKID", "aws.secret_access_key": "secret"}
    config = {"connection.url": fake.url, "read.timeout.ms": "60000", "aws.region": "eu-west-1", **keys}
    Server(Access.of(config, Flavour.AIVEN_OPENSEARCH, WORKER)).check()
    signed = fake.requests[-1].headers["Authorization"]
    assert signed.startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert "/eu-west-1/es/aws4_request" in signed
    assert "secret" not in repr(Access.of(config, Flavour.AIVEN_OPENSEARCH, WORKER))


def test_a_bulk_request_is_signed_as_aws_verifies_it(fake: FakeServer) -> None:
    keys = {"aws.region": "eu-west-1", "aws.access_key_id": "AKID", "aws.secret_access_key": "secret"}
    config = {"connection.url": fake.url, "read.timeout.ms": "60000", **keys}
    fake.whole = lambda request: (200, {"errors": False, "items": []})
    flavour = Flavour.AIVEN_OPENSEARCH
    sender = Sender(Server(Access.of(config, flavour, WORKER)), options(config, flavour), lambda seconds: None)
    assert sender.send(Piece(rows_of([]), np.arange(0))) == []
    assert fake.requests[-1].headers["Authorization"].endswith(f"Signature={aws_signature(fake)}")


def aws_signature(fake: FakeServer) -> str:
    """The signature of the last request, as AWS makes it."""
    sent = fake.requests[-1]
    headers = {name: sent.headers[name] for name in ("Content-Type", "X-Amz-Date")}
    signed = AWSRequest(sent.method, fake.url + sent.path, headers, sent.body, params=dict(sent.query))
    signed.context["timestamp"] = headers["X-Amz-Date"]
    signer = SigV4Auth(Credentials("AKID", "secret"), "es", "eu-west-1")
    return str(signer.signature(signer.string_to_sign(signed, signer.canonical_request(signed)), signed))


def test_a_node_that_does_not_answer_is_passed_over(fake: FakeServer) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}"
        one = server(f"{dead},{fake.url}")
        one.check()
        one.ask("PUT", "/i")
        assert list(fake.indices) == ["i"]
        with pytest.raises(ServerUnavailable):
            server(dead).check()


def test_after_a_node_without_its_cluster_the_next_one_is_asked(fake: FakeServer) -> None:
    other = FakeServer()
    try:
        fake.whole = lambda request: (503, {"error": {"type": "cluster_block_exception", "reason": "no master"}})
        other.whole = lambda request: (200, {"errors": False, "items": []})
        one = server(f"{fake.url},{other.url}")
        with pytest.raises(ServerBusy):
            one.ask("POST", "/_bulk", b"")
        one.ask("POST", "/_bulk", b"")
    finally:
        other.close()
    assert [request.path for request in other.requests] == ["/_bulk"]


def test_a_login_to_aws_that_is_renewed_meanwhile_signs_as_a_whole(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Renewed(Credentials):  # type: ignore[misc]
        """Another login from its second attribute on; frozen, the one it was."""

        secret_key = property(lambda self: "of another key", lambda self, value: None)

        def get_frozen_credentials(self) -> Any:
            return ReadOnlyCredentials("AKID", "secret", None)

    monkeypatch.setattr(Session, "get_credentials", lambda self: Renewed("AKID", "secret"))
    config = {"connection.url": fake.url, "read.timeout.ms": "60000", "aws.region": "eu-west-1"}
    Server(Access.of(config, Flavour.AIVEN_OPENSEARCH, WORKER)).check()
    assert fake.requests[-1].headers["Authorization"].endswith(f"Signature={aws_signature(fake)}")


def test_one_node_with_https_makes_all_use_it() -> None:
    config = {"connection.url": "a:1,https://b:2/path/,http://u:p@c"}
    assert Access.of(config, Flavour.CONFLUENT, {}).urls == ("https://a:1", "https://b:2/path", "https://c")


def test_answers(fake: FakeServer) -> None:
    one = server(fake.url)
    answers = {
        401: LoginRefused,
        404: NotThere,
        400: Refused,
        413: Refused,
        408: ServerBusy,
        429: ServerBusy,
        500: ServerBusy,
        503: ServerBusy,
    }
    for status, kind in answers.items():
        fake.whole = lambda request, status=status: (status, {"error": {"type": "what", "reason": "why"}})
        with pytest.raises(kind, match=f"answers {status} to POST /_bulk: what: why"):
            one.ask("POST", "/_bulk", b"")
    fake.headers = {"Retry-After": "3"}
    fake.whole = lambda request: (503, {})
    with pytest.raises(ServerBusy) as error:
        one.ask("POST", "/_bulk", b"")
    assert error.value.wait_s == 3.0


def test_a_hidden_root_is_no_fault(fake: FakeServer) -> None:
    fake.root = 403, {"error": {"type": "security_exception", "reason": "no monitor"}}
    server(fake.url).check()


def test_compression(fake: FakeServer) -> None:
    fake.whole = lambda request: (200, {"items": [], "errors": False})
    server(fake.url, connection_compression="true").ask("POST", "/_bulk", b"x" * 1000)
    assert fake.requests[-1].headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(fake.requests[-1].body) == b"x" * 1000


@pytest.fixture
def secured(fake: FakeServer, tmp_path: Path) -> tuple[str, Path]:
    """The URL of the fake with TLS, and a trust store for it."""
    authority = Authority()
    (tmp_path / "own.pem").write_text(authority.issue("node").pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "own.pem")
    served = fake._server
    served.socket = context.wrap_socket(served.socket, server_side=True)
    (tmp_path / "trust.pem").write_text(authority.pem)
    return fake.url.replace("http:", "https:"), tmp_path / "trust.pem"


def test_tls(secured: tuple[str, Path]) -> None:
    url, trust = secured
    names = {"elastic.https.ssl.truststore.location": str(trust), "elastic.https.ssl.truststore.type": "PEM"}
    with_store = {"connection.url": url, "read.timeout.ms": "60000", **names}
    Server(Access.of({**with_store, "elastic.security.protocol": "SSL"}, Flavour.CONFLUENT, WORKER)).check()
    with pytest.raises(ConfigError, match=r"Its certificate is not trusted.*elastic\.https\.ssl\.truststore\.location"):
        Server(Access.of(with_store, Flavour.CONFLUENT, WORKER)).check()
    aivens = {name.replace("elastic.https.", "connection."): value for name, value in with_store.items()}
    Server(Access.of(aivens, Flavour.AIVEN_OPENSEARCH, WORKER)).check()
    trusting = {"connection.url": url, "read.timeout.ms": "60000", "connection.trust.all.certificates": "true"}
    Server(Access.of(trusting, Flavour.AIVEN_OPENSEARCH, WORKER)).check()


def test_a_host_that_is_not_allowed_is_not_asked(fake: FakeServer) -> None:
    with pytest.raises(ConfigError, match=r"connector\.allowed\.hosts"):
        server(fake.url, worker={"connector.allowed.hosts": ["10.0.0.0/8"]}).check()
    assert fake.requests == []
