"""An HTTP server on loopback that answers what it is told to, and remembers what it was asked."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Answer = tuple[int, Any]
"""Status, and JSON; bytes go out as they are, and a function is called with the handler to answer by itself."""


@dataclass(frozen=True)
class Asked:
    """A request that came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class ScriptedRegistry:
    """The last answer is given for good; `asked` has every request."""

    answers: list[Answer]
    asked: list[Asked] = field(default_factory=list)
    url: str = ""

    def take(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def send(handler: BaseHTTPRequestHandler, status: int, data: bytes) -> None:
    """The whole answer goes out."""
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def forwarding(url: str, authorization: str | None = None) -> Any:
    """An answer that passes requests on to another server, if they bear this authorization."""

    def forward(handler: Any) -> None:
        if authorization is not None and handler.headers.get("Authorization") != authorization:
            send(handler, 401, b'{"error_code":401,"message":"Unauthorized"}')
            return
        headers = {"Content-Type": handler.headers.get("Content-Type", "application/json")}
        answer = httpx.request(
            handler.command, url + handler.path, content=handler.body, headers=headers, timeout=60, trust_env=False
        )
        send(handler, answer.status_code, answer.content)

    return forward


@contextmanager
def scripted(*answers: Answer, context: ssl.SSLContext | None = None) -> Iterator[ScriptedRegistry]:
    """A registry that gives these answers one after the other."""
    script = ScriptedRegistry(list(answers))

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            text = self.body.decode()
            told = json.loads(text) if text.startswith("{") else text
            script.asked.append(Asked(self.command, self.path, dict(self.headers), told))
            status, content = script.take()
            if callable(content):
                content(self)
                return
            send(self, status, content if isinstance(content, bytes) else json.dumps(content).encode())

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = answer

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "http" if context is None else "https"
        script.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield script
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True)
class Identity:
    """A key and a certificate of its own signature for 127.0.0.1."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> str:
        """Both, the key unlocked."""
        form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        return self.key.private_bytes(serialization.Encoding.PEM, form, plain).decode() + self.certificate_pem

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def server_context(self, folder: Path, trusting: Identity | None = None) -> ssl.SSLContext:
        """For a server that shows it, and asks clients for the identity it trusts."""
        path = folder / "server.pem"
        path.write_text(self.pem)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(path)
        if trusting is not None:
            context.load_verify_locations(cadata=trusting.certificate_pem)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def identity(name: str, address: str = "127.0.0.1", days: int = 1) -> Identity:
    """A new one, which ends in so many days."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    its = x509.IPAddress(ipaddress.ip_address(address))
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=9))
    builder = builder.not_valid_after(now + datetime.timedelta(days=days))
    builder = builder.add_extension(x509.SubjectAlternativeName([its]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return Identity(key, builder.sign(key, hashes.SHA256()))
