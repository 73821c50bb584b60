"""An authority of a test's own, and the keys and certificates that it issues, as stores of each format."""

from __future__ import annotations

import datetime
import ipaddress
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from headrace.plugins.interop.jvm.jars import find_java

STORE: Final = "changeit"
_LOCKED: Final = serialization.BestAvailableEncryption(STORE.encode())
_PEM: Final = serialization.Encoding.PEM


@dataclass(frozen=True)
class Issued:
    """A key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(_PEM).decode()

    @property
    def key_pem(self) -> str:
        form = serialization.PrivateFormat.PKCS8
        return self.key.private_bytes(_PEM, form, serialization.NoEncryption()).decode()

    @property
    def pem(self) -> str:
        return self.key_pem + self.certificate_pem

    @property
    def p12(self) -> bytes:
        return pkcs12.serialize_key_and_certificates(b"me", self.key, self.certificate, None, _LOCKED)

    @property
    def p12_trust(self) -> bytes:
        """A trust store with the certificate, as Java's."""
        return pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(self.certificate, b"ca")], _LOCKED)


class Authority:
    """Issues certificates."""

    def __init__(self, name: str = "Test CA") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(self._name, key, 1).issuer_name(self._name)
        ca = x509.BasicConstraints(ca=True, path_length=None)
        self.own = Issued(key, builder.add_extension(ca, critical=True).sign(key, hashes.SHA256()))

    @property
    def pem(self) -> str:
        return self.own.certificate_pem

    def issue(
        self, name: str | x509.Name, hosts: Sequence[str] = ("127.0.0.1", "localhost"), days: float = 1
    ) -> Issued:
        """A certificate for these hosts; with negative `days` it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = name if isinstance(name, x509.Name) else common_name(name)
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        builder = _builder(subject, key, days).issuer_name(self._name).add_extension(names, critical=False)
        return Issued(key, builder.sign(self.own.key, hashes.SHA256()))


def common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def as_jks(p12: Path, jks: Path) -> None:
    """Make a JKS store of a PKCS12 store, with Java's tool."""
    tool = find_java().path.with_name("keytool")
    source = ["-srckeystore", p12, "-srcstoretype", "PKCS12", "-srcstorepass", STORE]
    to = ["-destkeystore", jks, "-deststoretype", "JKS", "-deststorepass", STORE]
    command = [tool, "-importkeystore", "-noprompt", *source, *to, "-J-XX:TieredStopAtLevel=1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: float) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=3))
    return builder.not_valid_after(now + datetime.timedelta(days=days))


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
