"""Java's key and trust stores (PEM, PKCS12, JKS) as PEM text, which every library takes.

Decided: JKS is read here, in about 60 lines, because most Java clients have their certificates in it and would
otherwise need each store twice; loses: keys in JCEKS stores, which have to be converted.

Errors of all functions: KeyStoreError, which quotes nothing of the unreadable text (Invariant 6).
"""

from __future__ import annotations

import hashlib
import re
import secrets
import ssl
import struct
import tempfile
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12

_PEM: Final = serialization.Encoding.PEM
_JKS_START: Final = struct.Struct(">III")
_KEY_ENTRY: Final = 1
_WHITENER: Final = b"Mighty Aphrodite"
"""Part of the checksum of every JKS store."""
_DIGEST_BYTES: Final = 20
_SUN_KEY_PROTECTOR: Final = bytes.fromhex("060a2b060104012a02110101")
"""Object identifier of the key encryption in JKS stores."""
_KEY: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----\n?", re.DOTALL)


class KeyStoreError(ValueError):
    """A store that cannot be read; its text is the reason."""


class StoreFormat(StrEnum):
    """The format of a key or trust store."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"


class Identity(NamedTuple):
    """A private key, not encrypted, and the chain of its certificate, both as PEM text."""

    key: str
    chain: str


def store_format(head: bytes) -> StoreFormat | None:
    """The format of a store by its first bytes; None if it is unknown.

    Java reads PKCS12 files under the type JKS too, so the bytes decide and not the type.
    """
    if head[:4] in (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"):
        return StoreFormat.JKS
    if b"-----BEGIN " in head:
        return StoreFormat.PEM
    return StoreFormat.PKCS12 if head[:1] == b"\x30" else None


def trusted(data: bytes, password: str | None) -> str:
    """The certificates of a trust store as PEM text."""
    form = store_format(data)
    if form is StoreFormat.PEM:
        return data.decode("utf-8", "replace")
    if form is StoreFormat.JKS:
        found = [chain[0] for _, chain in _jks_entries(data, password) if chain]
    else:
        store = _pkcs12(data, password)
        found = [each.certificate for each in (store.cert, *store.additional_certs) if each is not None]
    if not found:
        raise KeyStoreError("there is no certificate in it")
    return _certificates(found)


def identity(data: bytes, password: str | None, key_password: str | None = None) -> Identity:
    """The first key of a PKCS12 or JKS store; `key_password`: if it differs from the store's."""
    key: PrivateKeyTypes
    if store_format(data) is StoreFormat.JKS:
        key, chain = _jks_key(data, password, key_password or password or "")
    else:
        store = _pkcs12(data, password)
        if store.key is None or store.cert is None:
            raise KeyStoreError("it has no key with a certificate")
        key, chain = store.key, [store.cert.certificate, *(each.certificate for each in store.additional_certs)]
    text = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Identity(text.decode(), _certificates(chain))


def load_identity(context: ssl.SSLContext, text: str, password: str | None) -> None:
    """Loads a private key and its certificates, PEM text, into the context."""
    found = _KEY.search(text)
    if found is not None and "ENCRYPTED" not in found[0]:
        text, password = _encrypted(text, found[0])
    # Python's ssl reads keys from files only: this one has no other readers and is deleted at once.
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".pem") as file:
        file.write(text)
        file.flush()
        try:
            # Without a password OpenSSL would prompt on the terminal.
            context.load_cert_chain(file.name, password=password or "")
        except (ssl.SSLError, ValueError, OSError):
            raise KeyStoreError("the key cannot be read, or does not fit its certificate") from None


def _encrypted(text: str, key: str) -> tuple[str, str]:
    """The text with its key encrypted, and the password: no key is written to disk in the clear (Invariant 6)."""
    once = secrets.token_hex(16)
    locked = serialization.BestAvailableEncryption(once.encode())
    try:
        made = serialization.load_pem_private_key(key.encode(), None)
    except (ValueError, TypeError):
        raise KeyStoreError("the key cannot be read") from None
    return text.replace(key, made.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, locked).decode()), once


def pem(text: str) -> str:
    r"""A PEM text with its line ends restored; properties files often write it as one line with `\n` or blanks."""
    text = text.replace("\\n", "\n").strip()

    def lines(match: re.Match[str]) -> str:
        return f"-----BEGIN {match[1]}-----\n" + "\n".join(match[2].split()) + f"\n-----END {match[1]}-----"

    return re.sub(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", lines, text, flags=re.DOTALL) + "\n"


def _certificates(found: list[x509.Certificate]) -> str:
    return "".join(each.public_bytes(_PEM).decode() for each in found)


def _pkcs12(data: bytes, password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, password.encode() if password else None)
    except ValueError:
        raise KeyStoreError("its password is wrong, or the file is not complete") from None


def _jks_entries(data: bytes, password: str | None) -> Iterator[tuple[bytes | None, list[x509.Certificate]]]:
    """The encrypted key, None for a trusted certificate, and the certificates of each entry."""
    body, checksum = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    # As in Java a trust store may be read without its password, and is then not checked.
    if password and _sha1(_utf16(password), _WHITENER, body) != checksum:
        raise KeyStoreError("its password is wrong, or the file is not complete")
    try:
        _, version, count = _JKS_START.unpack_from(body)
        fields = _Fields(body, _JKS_START.size)
        for _ in range(count):
            tag = fields.number(4)
            fields.sized(2)  # alias
            fields.number(8)  # date
            key = fields.sized(4) if tag == _KEY_ENTRY else None
            chain = []
            for _ in range(fields.number(4) if tag == _KEY_ENTRY else 1):
                if version > 1:
                    fields.sized(2)  # the certificate's type
                chain.append(x509.load_der_x509_certificate(fields.sized(4)))
            yield key, chain
    except (struct.error, ValueError):
        raise KeyStoreError("the file is not complete, or has entries other than keys and certificates") from None


def _jks_key(data: bytes, password: str | None, key_password: str) -> tuple[PrivateKeyTypes, list[x509.Certificate]]:
    found = next(((key, chain) for key, chain in _jks_entries(data, password) if key is not None), None)
    if found is None:
        raise KeyStoreError("it has no key with a certificate")
    encrypted, chain = found
    if _SUN_KEY_PROTECTOR not in encrypted[:32]:
        raise KeyStoreError(
            "its key is encrypted as in JCEKS stores: convert it to PKCS12 with keytool -importkeystore"
        )
    try:
        return serialization.load_der_private_key(_decrypted(encrypted, key_password), None), chain
    except (ValueError, TypeError):
        raise KeyStoreError("the password of its key is wrong: set ssl.key.password") from None


def _decrypted(encrypted: bytes, password: str) -> bytes:
    """The key of a JKS store: its bytes are XORed with SHA-1 digests chained from password and salt."""
    secret = _der_contents(encrypted)
    salt, cipher, check = secret[:_DIGEST_BYTES], secret[_DIGEST_BYTES:-_DIGEST_BYTES], secret[-_DIGEST_BYTES:]
    letters, stream, digest = _utf16(password), b"", salt
    while len(stream) < len(cipher):
        digest = _sha1(letters, digest)
        stream += digest
    plain = bytes(one ^ other for one, other in zip(cipher, stream, strict=False))
    if _sha1(letters, plain) != check:
        raise ValueError("another password")
    return plain


def _der_contents(encrypted: bytes) -> bytes:
    """The octets in SEQUENCE {SEQUENCE, OCTET STRING}."""
    outer, _ = der_element(encrypted, 0)
    _, algorithm_end = der_element(encrypted, outer)
    start, end = der_element(encrypted, algorithm_end)
    return encrypted[start:end]


def der_element(data: bytes, at: int) -> tuple[int, int]:
    """Start and end of the contents of the DER element at this offset. Errors: ValueError if there is none."""
    if at + 2 > len(data):
        raise ValueError("it ends within an entry")
    length, start = data[at + 1], at + 2
    if length & 0x80:
        size = length & 0x7F
        length, start = int.from_bytes(data[start : start + size], "big"), start + size
    return start, start + length


class _Fields:
    """Reads numbers and byte strings one after the other. Errors: ValueError at the end of the data."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    def number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def sized(self, size: int) -> bytes:
        """A byte string after its length, a number of `size` bytes."""
        return self._take(self.number(size))

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError("it ends within an entry")
        self._at += size
        return taken


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


def _sha1(*parts: bytes) -> bytes:
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()
