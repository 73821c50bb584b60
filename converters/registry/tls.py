"""TLS of the schema registry's client: makes a Python `ssl` context from Java's stores and settings."""

from __future__ import annotations

import secrets
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from headrace.config.client_security import StoreFormat, pem, store_format
from headrace.config.settings import ConfigError, Password, Problem
from headrace.converters.registry.settings import PREFIX

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PEM: Final = serialization.Encoding.PEM


def tls_context(values: Mapping[str, Any]) -> ssl.SSLContext:
    """The context that `schema.registry.ssl.*` describes; without a trust store it trusts what the system trusts.

    Errors: ConfigError.
    """
    own = {key.removeprefix(PREFIX): value for key, value in values.items() if key.startswith(f"{PREFIX}ssl.")}
    if own["ssl.engine.factory.class"] is not None:
        _refuse("ssl.engine.factory.class", "It names code to load, which a configuration may not do.", "Remove it.")
    trusted = _trusted(own)
    try:
        context = ssl.create_default_context(cadata=trusted) if trusted else ssl.create_default_context()
    except (ssl.SSLError, ValueError):
        _refuse(
            "ssl.truststore.location", "Its certificates cannot be read.", "Check that they are complete PEM texts."
        )
    check = (own["ssl.endpoint.identification.algorithm"] or "").strip().lower()
    context.check_hostname = check == "https"
    names = own["ssl.enabled.protocols"]
    if unknown := [name for name in names if name not in _VERSIONS]:
        _refuse("ssl.enabled.protocols", "It is not known.", f"Use {' and '.join(_VERSIONS)}.", ",".join(unknown))
    if versions := sorted(_VERSIONS[name] for name in names):
        context.minimum_version, context.maximum_version = versions[0], versions[-1]
    _load_own(context, own)
    return context


def _trusted(own: Mapping[str, Any]) -> str:
    if certificates := _secret(own, "ssl.truststore.certificates"):
        return pem(certificates)
    location = own["ssl.truststore.location"]
    if not location:
        return ""
    data, form = _read("ssl.truststore.location", location)
    if form is StoreFormat.PEM:
        return data.decode("utf-8", "replace")
    store = _pkcs12("ssl.truststore", data, own)
    found = [each.certificate for each in (store.cert, *store.additional_certs) if each is not None]
    if not found:
        _refuse("ssl.truststore.location", "There is no certificate in it.", "Name a store that has one.", location)
    return "".join(each.public_bytes(_PEM).decode() for each in found)


def _load_own(context: ssl.SSLContext, own: Mapping[str, Any]) -> None:
    """Loads the client's own key and certificate, if it has them, for a registry that requests them."""
    key, location = _secret(own, "ssl.keystore.key"), own["ssl.keystore.location"]
    password = _secret(own, "ssl.key.password")
    if key:
        chain = _secret(own, "ssl.keystore.certificate.chain") or ""
        _load_pem(context, "ssl.keystore.key", pem(key) + pem(chain), password)
    elif location:
        data, form = _read("ssl.keystore.location", location)
        if form is StoreFormat.PEM:
            _load_pem(context, "ssl.keystore.location", data.decode("utf-8", "replace"), password)
            return
        store = _pkcs12("ssl.keystore", data, own)
        if store.key is None or store.cert is None:
            _refuse("ssl.keystore.location", "It has no key with a certificate.", "Name one that has.", location)
        once = secrets.token_hex(16)
        locked = serialization.BestAvailableEncryption(once.encode())
        text = store.key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, locked).decode()
        chain = "".join(each.certificate.public_bytes(_PEM).decode() for each in (store.cert, *store.additional_certs))
        _load_pem(context, "ssl.keystore.location", text + chain, once)


def _load_pem(context: ssl.SSLContext, key: str, text: str, password: str | None) -> None:
    # Python's ssl reads keys from files only: this one has no other readers and is deleted at once.
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".pem") as file:
        file.write(text)
        file.flush()
        try:
            # Without a password OpenSSL would prompt on the terminal.
            context.load_cert_chain(file.name, password=password or "")
        except (ssl.SSLError, ValueError, OSError):
            remedy = f"Check that it is a private key with its certificate, and {PREFIX}ssl.key.password."
            _refuse(key, "The key cannot be read, or does not fit its certificate.", remedy)


def _pkcs12(store: str, data: bytes, own: Mapping[str, Any]) -> pkcs12.PKCS12KeyAndCertificates:
    password = _secret(own, f"{store}.password")
    try:
        return pkcs12.load_pkcs12(data, password.encode() if password else None)
    except ValueError:
        remedy = f"Check {PREFIX}{store}.password, and that the file is complete."
        _refuse(f"{store}.location", "The store cannot be opened.", remedy, own[f"{store}.location"])


def _read(key: str, location: str) -> tuple[bytes, StoreFormat]:
    try:
        data = Path(location).read_bytes()
    except OSError as error:
        what = f"The file cannot be read: {error.strerror or error}."
        _refuse(key, what, "Check its name and permissions.", location)
    form = store_format(data)
    if form is None or form is StoreFormat.JKS:
        what = "A JKS store cannot be read." if form else "Its format is not known."
        convert = f"keytool -importkeystore -srckeystore {location} -destkeystore store.p12 -deststoretype PKCS12"
        _refuse(key, what, f"Convert it: {convert}; then name store.p12 here.", location)
    return data, form


def _secret(own: Mapping[str, Any], key: str) -> str | None:
    value = own[key]
    return value.value if isinstance(value, Password) else value


def _refuse(key: str, message: str, remedy: str, value: str | None = None) -> NoReturn:
    # Invariant 6: the causes are left out, because they quote what they could not read.
    raise ConfigError(Problem(PREFIX + key, value, message, remedy)) from None
