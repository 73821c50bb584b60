"""TLS of the schema registry's client: makes a Python `ssl` context from Java's stores and settings."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

from headrace.config.key_stores import StoreError, StoreFormat, identity, load_identity, pem, store_format, trusted
from headrace.config.settings import ConfigError, Password, Problem
from headrace.converters.registry.settings import PREFIX

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


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
    data = _read("ssl.truststore.location", location)
    try:
        return trusted(data, _secret(own, "ssl.truststore.password"))
    except StoreError as error:
        _refuse_store("ssl.truststore", error, location)


def _load_own(context: ssl.SSLContext, own: Mapping[str, Any]) -> None:
    """Loads the client's own key and certificate, if it has them, for a registry that requests them."""
    key, location = _secret(own, "ssl.keystore.key"), own["ssl.keystore.location"]
    password = _secret(own, "ssl.key.password")
    if key:
        chain = _secret(own, "ssl.keystore.certificate.chain") or ""
        _load_pem(context, "ssl.keystore.key", pem(key) + pem(chain), password)
    elif location:
        data = _read("ssl.keystore.location", location)
        if store_format(data) is StoreFormat.PEM:
            _load_pem(context, "ssl.keystore.location", data.decode("utf-8", "replace"), password)
            return
        try:
            found = identity(data, _secret(own, "ssl.keystore.password"), password)
        except StoreError as error:
            _refuse_store("ssl.keystore", error, location)
        _load_pem(context, "ssl.keystore.location", found.key + found.chain, None)


def _load_pem(context: ssl.SSLContext, key: str, text: str, password: str | None) -> None:
    try:
        load_identity(context, text, password)
    except StoreError as error:
        remedy = f"Check that it is a private key with its certificate, and {PREFIX}ssl.key.password."
        _refuse(key, f"It cannot be taken: {error}.", remedy)


def _read(key: str, location: str) -> bytes:
    try:
        data = Path(location).read_bytes()
    except OSError as error:
        what = f"The file cannot be read: {error.strerror or error}."
        _refuse(key, what, "Check its name and permissions.", location)
    if store_format(data) is None:
        _refuse(key, "Its format is not known.", "Name a PEM, PKCS12 or JKS store.", location)
    return data


def _refuse_store(store: str, error: StoreError, location: str) -> NoReturn:
    remedy = f"Check {PREFIX}{store}.password, and that the file is complete."
    _refuse(f"{store}.location", f"The store cannot be opened: {error}.", remedy, location)


def _secret(own: Mapping[str, Any], key: str) -> str | None:
    value = own[key]
    return value.value if isinstance(value, Password) else value


def _refuse(key: str, message: str, remedy: str, value: str | None = None) -> NoReturn:
    # Invariant 6: the causes are left out, because they quote what they could not read.
    raise ConfigError(Problem(PREFIX + key, value, message, remedy)) from None
