"""`headrace secure init FOLDER`: all files of a worker with https, logins, rights and an audit log.

Decided: the certificates are for development, and say so in their names, because an operator who serves others has an
authority of their own; they end after a year at most. Loses: production needs its own certificates in these files.
Decided: the worker is distributed with the internal topics' replication left to the brokers, because more workers can
join it with the same folder; loses: a standalone worker has to be written by hand.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import secrets
import shlex
import shutil
import socket
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import bcrypt
import javaproperties
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from headrace.config.worker.login_settings import PRINCIPAL_SECRET

ORGANIZATION: Final = "Headrace development"
"""The O of all certificates."""
LIFETIME: Final = datetime.timedelta(days=365)
USERS: Final = ("admin", "operator", "viewer")
WORKER_FILE: Final = "worker.properties"

_CERTIFICATE_USER: Final = "operator"
"""The user of the client's certificate."""
_PASSWORD_BYTES: Final = 18
_HASH_COST: Final = 12

_RIGHTS: Final = """\
# Who may do what with which connectors; read again when it changes. See docs/security-rest.md#rights.

[[rules]]
who = ["user:admin"]
connectors = ["*"]
rights = ["edit", "operate", "offsets", "admin"]

[[rules]]
who = ["user:operator"]
connectors = ["*"]
rights = ["view_config", "operate"]

[[rules]]
who = ["user:viewer"]
connectors = ["*"]
rights = ["view"]
"""


class InitError(Exception):
    """The folder cannot be written; the text says why and what to do."""


@dataclass(frozen=True)
class SecureSet:
    """The written files, with their passwords."""

    folder: Path
    passwords: Mapping[str, str] = field(repr=False)
    """By user; they are stored nowhere else."""
    url: str

    @property
    def worker_file(self) -> Path:
        """The worker's properties."""
        return self.folder / WORKER_FILE

    def told(self) -> Iterable[str]:
        """Lines for the user of the command."""
        login = f"admin:{self.passwords['admin']}"
        certificate = shlex.quote(str(self.folder / "ca.pem"))
        own, worker_file = shlex.quote(str(self.folder / "client.pem")), shlex.quote(str(self.worker_file))
        yield f"Written to {self.folder}: a secure worker's properties, users, rights and certificates for development."
        yield "Passwords, shown this once:"
        yield from (f"  {user:<10} {password}" for user, password in self.passwords.items())
        yield "Look at it:        headrace doctor --worker " + worker_file
        yield "Start the worker:  connect-distributed " + worker_file
        yield f"Ask it:            curl --cacert {certificate} -u {login} {self.url}/connectors"
        yield f"Without password:  curl --cacert {certificate} --cert {own} {self.url}/connectors"


def write(
    folder: Path,
    bootstrap_servers: str = "127.0.0.1:9092",
    hosts: Sequence[str] = (),
    port: int = 8443,
    admin_port: int = 8444,
) -> SecureSet:
    """Write everything into a new folder; `hosts`: further names and addresses of the server's certificate.

    Errors: InitError.
    """
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InitError(f"{folder} is there already and not empty; nothing was written. Name a new folder")
    made = SecureSet(
        folder, {user: secrets.token_urlsafe(_PASSWORD_BYTES) for user in USERS}, f"https://localhost:{port}"
    )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Written beside and renamed, so it appears whole or not at all. mkdtemp gives 0700.
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            _fill(draft, made, bootstrap_servers, hosts, (port, admin_port))
            draft.rename(folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    except OSError as error:
        raise InitError(f"{folder} cannot be written: {error.strerror or error}. Name another folder") from error
    return made


def _fill(draft: Path, made: SecureSet, bootstrap_servers: str, hosts: Sequence[str], ports: tuple[int, int]) -> None:
    (draft / "files").mkdir(mode=0o700)
    authority = _Authority.new()
    _put(draft / "ca.pem", _pem(authority.certificate))
    _put(draft / "ca.key", _key_pem(authority.key))
    # Workers show theirs to each other, too.
    server, client = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    _put(draft / "server.pem", authority.issued("worker", [server, client], _names(hosts)))
    _put(draft / "client.pem", authority.issued(_CERTIFICATE_USER, [client], []))
    hashed = {
        user: bcrypt.hashpw(password.encode(), bcrypt.gensalt(_HASH_COST)) for user, password in made.passwords.items()
    }
    _put(draft / "users.properties", "".join(f"{user}={value.decode()}\n" for user, value in hashed.items()))
    _put(draft / "rights.toml", _RIGHTS)
    _put(draft / WORKER_FILE, _worker(made.folder, bootstrap_servers, ports))


def _put(path: Path, text: str) -> None:
    """Write a file that only its owner may read, from its first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


def _worker(folder: Path, bootstrap_servers: str, ports: tuple[int, int]) -> str:
    parts = [
        (
            "Where Kafka is. Brokers of others need security.protocol and a login: see docs/security-kafka.md.",
            _kafka(bootstrap_servers),
        ),
        (
            "The REST API, on this machine only; listeners=https://:8443 lets others reach it.",
            _listeners(folder, ports),
        ),
        ("Who may log in: by a password, or by a certificate of ca.pem, whose CN is the user.", _logins(folder)),
        ("What who has logged in may do, and what was done.", _rights(folder)),
        ("What connectors may reach.", _bounds(folder)),
    ]
    head = f"# A secure worker. Its certificates are for development: {ORGANIZATION}.\n"
    return head + "".join(
        f"\n# {text}\n" + "".join(f"{key}={_escaped(value)}\n" for key, value in values.items())
        for text, values in parts
    )


def _escaped(value: str) -> str:
    """Escape a value for a properties file; characters that could end a key are left."""
    return javaproperties.escape(value).replace("\\:", ":").replace("\\=", "=").replace("\\ ", " ")


def _kafka(bootstrap_servers: str) -> dict[str, str]:
    topics = {
        f"{kind}.storage.{key}": value
        for kind, topic in (("config", "configs"), ("offset", "offsets"), ("status", "status"))
        for key, value in (("topic", f"headrace-secure-{topic}"), ("replication.factor", "-1"))
    }
    json = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": "headrace-secure",
        # Another worker with this folder signs with it who asked.
        PRINCIPAL_SECRET: secrets.token_urlsafe(_PASSWORD_BYTES),
        **topics,
        "key.converter": json,
        "value.converter": json,
    }


def _listeners(folder: Path, ports: tuple[int, int]) -> dict[str, str]:
    tls = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "ssl.client.auth": "requested",
    }
    found = {}
    for name, port in zip(("listeners", "admin.listeners"), ports, strict=True):
        found[name] = f"https://127.0.0.1:{port}"
        found |= {f"{name}.https.{key}": value for key, value in tls.items()}
    return found


def _logins(folder: Path) -> dict[str, str]:
    return {
        "rest.basic.auth.users.file": str(folder / "users.properties"),
        "rest.client.certificate.login": "true",
        "ssl.principal.mapping.rules": f"RULE:^CN=([^,]+),O={ORGANIZATION}$/$1/",
    }


def _rights(folder: Path) -> dict[str, str]:
    return {
        "rest.rights.file": str(folder / "rights.toml"),
        "rest.audit.log": "json",
        "rest.audit.log.file": str(folder / "audit.log"),
        "rest.mask.secrets": "true",
    }


def _bounds(folder: Path) -> dict[str, str]:
    return {
        "connector.allowed.hosts": "localhost,127.0.0.0/8,::1",
        "file.allowed.paths": str(folder / "files"),
        "connector.client.config.override.policy": "Principal",
    }


def _names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """This machine's names, and the further ones, each once."""
    found: dict[x509.GeneralName, None] = {}
    for host in ("localhost", "127.0.0.1", "::1", socket.gethostname(), *hosts):
        try:
            found[x509.IPAddress(ipaddress.ip_address(host))] = None
        except ValueError:
            try:
                found[x509.DNSName(host)] = None
            except ValueError:
                raise InitError(f"--host {host} is neither a host's name in ASCII nor an address") from None
    return list(found)


@dataclass(frozen=True)
class _Authority:
    """Signs the certificates."""

    key: ec.EllipticCurvePrivateKey = field(repr=False)
    certificate: x509.Certificate

    @classmethod
    def new(cls) -> _Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"{ORGANIZATION} CA")
        builder = _begun(name, name, key.public_key(), key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        return cls(key, builder.sign(key, hashes.SHA256()))

    def issued(self, name: str, usages: Sequence[x509.ObjectIdentifier], names: Sequence[x509.GeneralName]) -> str:
        """Make a new key and its certificate, as one PEM text."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _begun(_name(name), self.certificate.subject, key.public_key(), self.key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _key_pem(key) + _pem(builder.sign(self.key, hashes.SHA256()))


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, signer: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)  # for clocks that are late
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(start).not_valid_after(start + LIFETIME)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    return builder.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str) -> x509.Name:
    organization = x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION)
    return x509.Name([organization, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, form, plain).decode()
