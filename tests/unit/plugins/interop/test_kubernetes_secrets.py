"""Secrets of Kubernetes, asked of a server over TLS as a pod asks."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from headrace.config.problems import ConfigError
from headrace.plugins.interop.kubernetes_secrets import KubernetesSecretConfigProvider

SECRET = {"data": {"password": base64.b64encode("pä$$".encode()).decode(), "binary": "/w=="}}


class Api(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.headers["Authorization"] != "Bearer t0ken":
            code = 401
        elif self.path.startswith("/api/v1/namespaces/other/"):
            code = 403
        else:
            code = 200 if self.path == "/api/v1/namespaces/kafka/secrets/db.login" else 404
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(SECRET if code == 200 else {"message": "no"}).encode())

    def log_message(self, *_: object) -> None:
        pass


def certificate(folder: Path) -> Path:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(names, critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "key.pem").write_bytes(private)
    return folder


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesSecretConfigProvider]:
    """A provider in a pod whose API knows one secret."""
    account = certificate(tmp_path)
    (account / "token").write_text("t0ken\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(account / "ca.crt", account / "key.pem")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.server_port))
    found = KubernetesSecretConfigProvider()
    found.account = account
    yield found
    server.shutdown()
    server.server_close()


def test_a_secret_gives_its_values(provider: KubernetesSecretConfigProvider) -> None:
    assert dict(provider.get("kafka/db.login", {"password", "none"}).values) == {"password": "pä$$"}


@pytest.mark.parametrize(
    ("path", "key", "why"),
    [
        ("kafka/gone", "a", "there is no such secret"),
        ("other/db", "a", "may not read it"),
        ("kafka/db.login", "binary", "no text in UTF-8"),
        ("kafka", "a", "not namespace/secret"),
        ("kafka/../x", "a", "not namespace/secret"),
    ],
)
def test_what_cannot_be_read_is_said(provider: KubernetesSecretConfigProvider, path: str, key: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        provider.get(path, {key})
    assert why in caught.value.problems[0].message
    assert "t0ken" not in str(caught.value)


def test_a_renewed_token_is_used(provider: KubernetesSecretConfigProvider) -> None:
    (provider.account / "token").write_text("old")
    with pytest.raises(ConfigError, match="token was refused"):
        provider.get("kafka/db.login", {"password"})
    (provider.account / "token").write_text("t0ken")
    assert provider.get("kafka/db.login", {"password"}).values


def test_outside_of_a_pod_it_says_so(provider: KubernetesSecretConfigProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(ConfigError, match="KUBERNETES_SERVICE_HOST"):
        provider.get("kafka/db.login", {"password"})
