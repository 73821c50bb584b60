"""Python `ssl` contexts from Java's TLS settings and stores, for servers and clients; renewed when their files change.

Errors: ConfigError, which quotes nothing of the unreadable text (Invariant 6).
"""

from __future__ import annotations

import logging
import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, Self

from headrace.config.files import read_file
from headrace.config.key_stores import KeyStoreError, StoreFormat, identity, load_identity, pem, store_format, trusted
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Password

log = logging.getLogger(__name__)

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_NEWEST_SUITES: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
"""The suites of TLS 1.3; OpenSSL offers all of them or none."""
_ASKING: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_LOOK_S: Final = 1.0


class TlsSettings:
    """The parsed `ssl.*` settings below one prefix; errors name them with the prefix."""

    def __init__(self, values: Mapping[str, Any], prefix: str = "") -> None:
        self._values = values
        self._prefix = prefix

    @property
    def files(self) -> tuple[Path, ...]:
        """Paths of the key and trust stores that are set."""
        names = ("ssl.keystore.location", "ssl.truststore.location")
        return tuple(Path(self._values[name]) for name in names if self._values[name])

    @property
    def has_trust_store(self) -> bool:
        """True if the settings name trusted certificates."""
        return bool(self._secret("ssl.truststore.certificates") or self._values["ssl.truststore.location"])

    @property
    def asks_for_certificates(self) -> bool:
        """True if clients without a trusted certificate are refused."""
        return _ASKING[self._values["ssl.client.auth"]] is ssl.CERT_REQUIRED

    def client_context(self) -> ssl.SSLContext:
        """A client's context; without a trust store it trusts the system's certificates."""
        self._refuse_code()
        trusted = self._trusted()
        try:
            context = ssl.create_default_context(cadata=trusted) if trusted else ssl.create_default_context()
        except (ssl.SSLError, ValueError):
            self._refuse_trusted()
        check = (self._values["ssl.endpoint.identification.algorithm"] or "").strip().lower()
        context.check_hostname = check == "https"
        self._restrict(context)
        if own := self._own():
            self._load(context, *own)
        return context

    def peer_context(self) -> ssl.SSLContext:
        """A client's context for servers with the same settings; without a trust store it trusts its own chain, too.

        Java's workers trust the key store then, so workers with one shared certificate trust each other.
        """
        context = self.client_context()
        own = self._own()
        if own is not None and not self.has_trust_store:
            context.load_verify_locations(cadata=own[1])
        return context

    def server_context(self) -> ssl.SSLContext:
        """A server's context; `ssl.client.auth` decides if clients are asked for a certificate."""
        self._refuse_code()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        self._restrict(context)
        own = self._own()
        if own is None:
            message = "A listener with https needs a private key and its certificate."
            remedy = f"Set it to a PEM, PKCS12 or JKS store; or set {self._prefix}ssl.keystore.key and "
            self._refuse("ssl.keystore.location", message, f"{remedy}{self._prefix}ssl.keystore.certificate.chain.")
        self._load(context, *own)
        asking = _ASKING[self._values["ssl.client.auth"]]
        if asking is ssl.CERT_NONE:
            return context
        certificates = self._trusted()
        if not certificates:
            message = f"With {self._prefix}ssl.client.auth={self._values['ssl.client.auth']} it is needed."
            self._refuse("ssl.truststore.location", message, "Name a store with the authority of your clients.")
        try:
            context.load_verify_locations(cadata=certificates)
        except (ssl.SSLError, ValueError):
            self._refuse_trusted()
        context.verify_mode = asking
        return context

    def _restrict(self, context: ssl.SSLContext) -> None:
        """Limits the versions of TLS and the cipher suites."""
        protocol = self._values["ssl.protocol"]
        if protocol not in ("TLS", *_VERSIONS):
            self._refuse("ssl.protocol", "It is not known.", f"Use {' or '.join(_VERSIONS)}.", protocol)
        names = self._values["ssl.enabled.protocols"]
        if unknown := [name for name in names if name not in _VERSIONS]:
            self._refuse("ssl.enabled.protocols", "It is not known.", f"Use {' and '.join(_VERSIONS)}.", *unknown)
        versions = sorted({_VERSIONS[name] for name in names or _VERSIONS})
        suites = self._values["ssl.cipher.suites"]
        if suites:
            versions = self._choose_suites(context, suites, versions)
        context.minimum_version, context.maximum_version = versions[0], versions[-1]

    def _choose_suites(
        self, context: ssl.SSLContext, suites: Sequence[str], versions: Sequence[ssl.TLSVersion]
    ) -> list[ssl.TLSVersion]:
        """Limits the context to these suites; returns the versions with a suite left."""
        key = "ssl.cipher.suites"
        newest = set(suites) & set(_NEWEST_SUITES)
        older = [suite for suite in suites if suite not in newest]
        left = [one for one in versions if (newest if one is ssl.TLSVersion.TLSv1_3 else older)]
        if not left:
            self._refuse(key, "No enabled version of TLS has one of them.", "Add one.", *suites)
        if ssl.TLSVersion.TLSv1_3 in left and len(newest) < len(_NEWEST_SUITES):
            message = "Python's TLS cannot leave out single suites of TLS 1.3."
            remedy = f"Name all of {', '.join(_NEWEST_SUITES)}, or none of them."
            self._refuse(key, message, remedy, *suites)
        for suite in older:
            try:
                context.set_ciphers(_openssl_name(suite))
            except ssl.SSLError:
                self._refuse(key, "OpenSSL does not know it.", "Use others, or remove the setting.", suite)
        if older:
            context.set_ciphers(":".join(map(_openssl_name, older)))
        return left

    def _refuse_code(self) -> None:
        if self._values["ssl.engine.factory.class"] is not None:
            message = "It names code to load, which a configuration may not do."
            self._refuse("ssl.engine.factory.class", message, "Remove it.")

    def _trusted(self) -> str:
        if certificates := self._secret("ssl.truststore.certificates"):
            return pem(certificates)
        location = self._values["ssl.truststore.location"]
        if not location:
            return ""
        data = self._read("ssl.truststore.location", location)
        try:
            return trusted(data, self._secret("ssl.truststore.password"))
        except KeyStoreError as error:
            self._refuse_store("ssl.truststore", error, location)

    def _own(self) -> tuple[str, str, str | None] | None:
        """The name of the setting with the key, key and certificates as PEM text, and the key's password."""
        key, location = self._secret("ssl.keystore.key"), self._values["ssl.keystore.location"]
        password = self._secret("ssl.key.password")
        if key:
            chain = self._secret("ssl.keystore.certificate.chain") or ""
            return "ssl.keystore.key", pem(key) + pem(chain), password
        if not location:
            return None
        data = self._read("ssl.keystore.location", location)
        if store_format(data) is StoreFormat.PEM:
            return "ssl.keystore.location", data.decode("utf-8", "replace"), password
        try:
            found = identity(data, self._secret("ssl.keystore.password"), password)
        except KeyStoreError as error:
            self._refuse_store("ssl.keystore", error, location)
        return "ssl.keystore.location", found.key + found.chain, None

    def _load(self, context: ssl.SSLContext, key: str, text: str, password: str | None) -> None:
        try:
            load_identity(context, text, password)
        except KeyStoreError as error:
            remedy = f"Check that it is a private key with its certificate, and {self._prefix}ssl.key.password."
            self._refuse(key, f"It cannot be taken: {error}.", remedy)

    def _read(self, key: str, location: str) -> bytes:
        try:
            data = read_file(location)
        except OSError as error:
            what = f"The file cannot be read: {error.strerror or error}."
            self._refuse(key, what, "Check its name and permissions.", location)
        if store_format(data) is None:
            self._refuse(key, "Its format is not known.", "Name a PEM, PKCS12 or JKS store.", location)
        return data

    def _refuse_store(self, store: str, error: KeyStoreError, location: str) -> NoReturn:
        remedy = f"Check {self._prefix}{store}.password, and that the file is complete."
        self._refuse(f"{store}.location", f"The store cannot be opened: {error}.", remedy, location)

    def _refuse_trusted(self) -> NoReturn:
        remedy = "Check that they are complete PEM texts."
        self._refuse("ssl.truststore.location", "Its certificates cannot be read.", remedy)

    def _secret(self, key: str) -> str | None:
        value = self._values[key]
        return value.value if isinstance(value, Password) else value

    def _refuse(self, key: str, message: str, remedy: str, *values: str) -> NoReturn:
        # Invariant 6: causes are left out, because they quote the unreadable text.
        raise ConfigError(Problem(self._prefix + key, ",".join(values) or None, message, remedy)) from None


class RenewedContext:
    """Makes a context from files and again after they change; looks at them once a second at most.

    If changed files cannot be read, the last context stays and the log says why.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Sequence[Path], what: str) -> None:
        """`what` names the context's use in the log; files are first read by `current`."""
        self._make = make
        self._files = files
        self._what = what
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        self._seen: list[tuple[int, int, int] | None] = []
        self._looked_at = 0.0
        self._said = ""

    def fresh(self) -> ssl.SSLContext | None:
        """The context, without blocking; None if `current` has to look at files."""
        return self._context if time.monotonic() - self._looked_at < _LOOK_S else None

    def current(self) -> ssl.SSLContext:
        """The context for a new connection. Errors: ConfigError, only if no context was ever made."""
        if (context := self.fresh()) is not None:
            return context
        with self._lock:
            context = self._context
            self._looked_at = time.monotonic()
            # Stamped before they are read: changes in between cause another reading.
            found = [_stamp(file) for file in self._files]
            if context is None:
                context = self._context = self._make()
                self._seen = found
            elif found != self._seen and (made := self._made_anew()) is not None:
                context = self._context = made
                self._seen = found
            return context

    def delegate(self) -> ssl.SSLContext:
        """A client's context that uses the newest context for each connection."""
        return _Delegate.of(self)

    def _made_anew(self) -> ssl.SSLContext | None:
        try:
            made = self._make()
        except Exception as error:
            # Invariant 6: other errors may quote the unreadable text.
            text = str(error) if isinstance(error, ConfigError) else type(error).__name__
            if text != self._said:
                self._said = text
                log.error("The changed certificates of %s cannot be used; those before stay: %s", self._what, text)
            return None
        self._said = ""
        log.info("The certificates of %s have changed; new connections use the new ones", self._what)
        return made


class _Delegate(ssl.SSLContext):
    """Decided: a library that keeps one context still uses the newest; loses: nothing."""

    _source: RenewedContext

    @classmethod
    def of(cls, source: RenewedContext) -> Self:
        made = cls(ssl.PROTOCOL_TLS_CLIENT)
        made._source = source
        return made

    def wrap_socket(self, *args: Any, **named: Any) -> ssl.SSLSocket:
        return self._source.current().wrap_socket(*args, **named)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """Time, size and inode, links followed, to detect changes; None if the file is missing."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _openssl_name(suite: str) -> str:
    """OpenSSL's name of a TLS 1.2 suite; Java uses the standard's names."""
    name = suite.removeprefix("TLS_").replace("_WITH_", "_")
    name = re.sub(r"AES_(\d+)", r"AES\1", name).replace("_CBC", "")
    name = re.sub(r"(POLY1305)_SHA256$", r"\1", name)
    return re.sub(r"^RSA_", "", name).replace("_", "-")
