"""TLS and SASL of Kafka's Java clients, in the words of librdkafka, kafka-python and Spark.

Nothing here loads a class that a user names: login modules are read into their parts, and for the JVM within Spark the
JAAS text is written anew from these parts (CVE-2023-25194 and its followers came through that door).
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.config.problems import Problem
from headrace.config.values import HIDDEN

_MODULES: Final = "org.apache.kafka.common.security."
_PLAIN: Final = f"{_MODULES}plain.PlainLoginModule"
_SCRAM: Final = f"{_MODULES}scram.ScramLoginModule"
_OAUTH: Final = f"{_MODULES}oauthbearer.OAuthBearerLoginModule"
_OAUTH_HANDLER: Final = f"{_MODULES}oauthbearer.OAuthBearerLoginCallbackHandler"
_MECHANISMS: Final = {
    _PLAIN: ("PLAIN",),
    _SCRAM: ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    _OAUTH: ("OAUTHBEARER",),
}
_JAAS: Final = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?P<flag>\w+)(?P<options>.*?);\s*", re.DOTALL)
_OPTION: Final = re.compile(r"""\s*([\w.\-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;]+)""")
_EXTENSION: Final = "extension_"


@dataclass(frozen=True)
class Jaas:
    """A login module with its options, as `sasl.jaas.config` names it."""

    module: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> Jaas:
    """The one login module of a `sasl.jaas.config`.

    Errors: ValueError, without the text itself: it has secrets.
    """
    match = _JAAS.fullmatch(text)
    if match is None:
        raise ValueError("it must be one login module: Module required option=\"value\" …; with a ';' at its end")
    rest, options = match["options"], {}
    position = 0
    while rest[position:].strip():
        option = _OPTION.match(rest, position)
        if option is None:
            raise ValueError('its options must be written name="value", separated by blanks')
        options[option[1]] = _unquoted(option[2])
        position = option.end()
    return Jaas(match["module"], options)


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text[0] in "\"'" else text


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(frozen=True)
class Login:
    """Who a client logs in as; `mechanism` is None where there is no SASL."""

    mechanism: str | None = None
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    client_id: str = field(default="", repr=False)
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    endpoint: str = ""
    extensions: tuple[tuple[str, str], ...] = ()

    def librdkafka(self) -> dict[str, Any]:
        """Keys of librdkafka."""
        if self.mechanism is None:
            return {}
        if self.mechanism != "OAUTHBEARER":
            return {"sasl.mechanism": self.mechanism, "sasl.username": self.username, "sasl.password": self.password}
        keys = {
            "sasl.mechanism": self.mechanism,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": self.client_id,
            "sasl.oauthbearer.client.secret": self.client_secret,
            "sasl.oauthbearer.token.endpoint.url": self.endpoint,
            "sasl.oauthbearer.scope": self.scope,
            "sasl.oauthbearer.extensions": ",".join(f"{key}={value}" for key, value in self.extensions),
        }
        return {key: value for key, value in keys.items() if value}

    def kafka_python(self) -> dict[str, Any]:
        """Keyword arguments of kafka-python; it has no token source of its own, so none for OAUTHBEARER."""
        if self.mechanism is None or self.mechanism == "OAUTHBEARER":
            return {} if self.mechanism is None else {"sasl_mechanism": self.mechanism}
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
        }

    def java(self) -> dict[str, str]:
        """Settings for Kafka's Java client, the JAAS text written anew."""
        if self.mechanism is None:
            return {}
        if self.mechanism == "OAUTHBEARER":
            options = {"clientId": self.client_id, "clientSecret": self.client_secret, "scope": self.scope}
            options |= {f"{_EXTENSION}{key}": value for key, value in self.extensions}
            keys = {"sasl.oauthbearer.token.endpoint.url": self.endpoint}
            keys["sasl.login.callback.handler.class"] = _OAUTH_HANDLER
            return keys | {"sasl.mechanism": self.mechanism, "sasl.jaas.config": _jaas_text(_OAUTH, options)}
        module = _PLAIN if self.mechanism == "PLAIN" else _SCRAM
        jaas = _jaas_text(module, {"username": self.username, "password": self.password})
        return {"sasl.mechanism": self.mechanism, "sasl.jaas.config": jaas}


def _jaas_text(module: str, options: Mapping[str, str]) -> str:
    words = [f"{name}={_quoted(value)}" for name, value in options.items() if value]
    return " ".join([module, "required", *words]) + ";"


def login(java: Mapping[str, str], problems: list[Problem]) -> Login:
    """Who these settings log in as; what cannot be served is added to `problems`."""
    if not java.get("security.protocol", "PLAINTEXT").strip().upper().startswith("SASL"):
        return Login()
    text = java.get("sasl.jaas.config", "")
    mechanism = java.get("sasl.mechanism", "GSSAPI").strip().upper()
    if mechanism == "OAUTHBEARER":
        return _oauth(java, text, problems)
    if mechanism not in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        why = "The Kafka library within this worker has no Kerberos" if mechanism == "GSSAPI" else "It is not known"
        remedy = "Set it to PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."
        problems.append(Problem("sasl.mechanism", mechanism, f"{why}.", remedy))
        return Login()
    options = _module_options(text, mechanism, problems)
    if options is None:
        return Login()
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing or options.get("tokenauth", "false").lower() == "true":
        what = f"It has no {' and no '.join(missing)}." if missing else "Delegation tokens (tokenauth) are not served."
        _complain(problems, what, f'Write {_PLAIN} required username="…" password="…"; or the Scram module so.')
        return Login()
    return Login(mechanism, options["username"], options["password"])


def _module_options(text: str, mechanism: str, problems: list[Problem]) -> Mapping[str, str] | None:
    if not text.strip():
        _complain(problems, f"It is needed for {mechanism}.", "Set it to a login module with its options.")
        return None
    try:
        jaas = parse_jaas(text)
    except ValueError as e:
        _complain(problems, f"It cannot be read: {e}.", "See the documentation of Kafka's clients for its form.")
        return None
    if jaas.module not in _MECHANISMS:
        what = f"The login module {jaas.module} is refused: it would load code that a configuration names."
        _complain(problems, what, f"Use one of {', '.join(_MECHANISMS)}.")
        return None
    if mechanism not in _MECHANISMS[jaas.module]:
        what = f"The login module {jaas.module} does not go with sasl.mechanism={mechanism}."
        _complain(problems, what, "Change one of the two.")
        return None
    return jaas.options


def _complain(problems: list[Problem], message: str, remedy: str) -> None:
    problems.append(Problem("sasl.jaas.config", HIDDEN, message, remedy))


def _oauth(java: Mapping[str, str], text: str, problems: list[Problem]) -> Login:
    prefix = "sasl.oauthbearer.client.credentials."
    options = _module_options(text, "OAUTHBEARER", problems) if text.strip() else {}
    if options is None:
        return Login()
    client_id = java.get(f"{prefix}client.id") or options.get("clientId", "")
    secret = java.get(f"{prefix}client.secret") or options.get("clientSecret", "")
    endpoint = java.get("sasl.oauthbearer.token.endpoint.url", "").strip()
    if not client_id or not secret:
        _complain(problems, "It has no clientId and clientSecret.", 'Add clientId="…" clientSecret="…" to it.')
    # CVE-2025-27817: a file: URL reads this machine's files.
    if urlsplit(endpoint).scheme not in ("http", "https"):
        message = "It must be an http or https URL."
        remedy = "Set it to the token endpoint of your identity provider."
        problems.append(Problem("sasl.oauthbearer.token.endpoint.url", endpoint or None, message, remedy))
    scope = java.get("sasl.oauthbearer.scope") or options.get("scope", "")
    extensions = tuple((k.removeprefix(_EXTENSION), v) for k, v in options.items() if k.startswith(_EXTENSION))
    return Login("OAUTHBEARER", "", "", client_id, secret, scope, endpoint, extensions)


class StoreFormat(StrEnum):
    """The format of a key or trust store."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"


def store_format(head: bytes) -> StoreFormat | None:
    """The format that a store's first bytes show.

    Java reads PKCS12 files under the type JKS too, so the bytes decide and not the type.
    """
    if head[:4] in (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"):
        return StoreFormat.JKS
    if b"-----BEGIN " in head:
        return StoreFormat.PEM
    return StoreFormat.PKCS12 if head[:1] == b"\x30" else None


@dataclass(frozen=True)
class Tls:
    """The certificates that a client trusts and shows; `librdkafka` gives them under that library's keys."""

    librdkafka: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def java(self) -> dict[str, str]:
        """The settings that Kafka's Java client needs beside the user's: the formats of the stores."""
        stores = {"ssl.ca.location": "truststore", "ssl.ca.pem": "truststore", "ssl.key.location": "keystore"}
        pem = {store for key, store in {**stores, "ssl.key.pem": "keystore"}.items() if key in self.librdkafka}
        types = {f"ssl.{store}.type": "PEM" for store in pem}
        return types | ({"ssl.keystore.type": "PKCS12"} if "ssl.keystore.location" in self.librdkafka else {})

    def kafka_python(self) -> dict[str, Any]:
        """Keyword arguments of kafka-python.

        Errors: ValueError for a key that is not in a PEM file: Python's ssl reads keys from files only.
        """
        if not self.librdkafka:
            return {}
        keys = self.librdkafka
        if "ssl.key.pem" in keys or "ssl.keystore.location" in keys:
            raise ValueError("put ssl.keystore.key and its certificate chain into a PEM file, ssl.keystore.location")
        context = ssl.create_default_context(cafile=keys.get("ssl.ca.location"), cadata=keys.get("ssl.ca.pem"))
        context.check_hostname = keys["ssl.endpoint.identification.algorithm"] == "https"
        if "ssl.key.location" in keys:
            context.load_cert_chain(keys["ssl.key.location"], password=keys.get("ssl.key.password"))
        return {"ssl_context": context}


def tls(java: Mapping[str, str], problems: list[Problem]) -> Tls:
    """The certificates that these settings name; settings that cannot be served are added to `problems`."""
    if not java.get("security.protocol", "PLAINTEXT").strip().upper().endswith("SSL"):
        return Tls()
    check = java.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    keys: dict[str, Any] = {"ssl.endpoint.identification.algorithm": check or "none"}
    trust, shown = java.get("ssl.truststore.location"), java.get("ssl.keystore.location")
    if certificates := java.get("ssl.truststore.certificates"):
        keys["ssl.ca.pem"] = pem(certificates)
    elif trust and (form := _form("ssl.truststore.location", trust, problems)):
        _trust(keys, trust, form, problems)
    if key := java.get("ssl.keystore.key"):
        keys |= {"ssl.key.pem": pem(key), "ssl.certificate.pem": pem(java.get("ssl.keystore.certificate.chain", ""))}
    elif shown and (form := _form("ssl.keystore.location", shown, problems)):
        keys |= _identity(shown, form, java)
    if (password := java.get("ssl.key.password")) and "ssl.keystore.location" not in keys:
        keys["ssl.key.password"] = password
    return Tls(keys)


def _trust(keys: dict[str, Any], location: str, form: StoreFormat, problems: list[Problem]) -> None:
    if form is StoreFormat.PEM:
        keys["ssl.ca.location"] = location
        return
    convert = f"openssl pkcs12 -in {location} -nokeys -out ca.pem"
    remedy = f"Make a PEM file of it: {convert}; then set ssl.truststore.type=PEM and ssl.truststore.location to it."
    problems.append(Problem("ssl.truststore.location", location, "A PKCS12 trust store cannot be read.", remedy))


def _identity(location: str, form: StoreFormat, java: Mapping[str, str]) -> dict[str, Any]:
    if form is StoreFormat.PEM:
        return {"ssl.key.location": location, "ssl.certificate.location": location}
    return {"ssl.keystore.location": location, "ssl.keystore.password": java.get("ssl.keystore.password", "")}


def _form(key: str, location: str, problems: list[Problem]) -> StoreFormat | None:
    """The format of a store that can be read; for another None, and a problem."""
    try:
        with Path(location).open("rb") as file:
            form = store_format(file.read(65_536))
    except OSError as e:
        remedy = "Check its name and who may read it."
        problems.append(Problem(key, location, f"The file cannot be read: {e.strerror or e}.", remedy))
        return None
    if form is not None and form is not StoreFormat.JKS:
        return form
    what = "A JKS store cannot be read" if form else "Its format is not known"
    remedy = (
        f"Convert it: keytool -importkeystore -srckeystore {location} -destkeystore store.p12 "
        "-deststoretype PKCS12, then openssl pkcs12 -in store.p12 -out store.pem, and name that with type PEM."
    )
    problems.append(Problem(key, location, f"{what}.", remedy))
    return None


def pem(text: str) -> str:
    r"""A PEM text with its line ends, which properties files often carry as one line with `\n` or blanks."""
    text = text.replace("\\n", "\n").strip()

    def lines(match: re.Match[str]) -> str:
        return f"-----BEGIN {match[1]}-----\n" + "\n".join(match[2].split()) + f"\n-----END {match[1]}-----"

    return re.sub(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", lines, text, flags=re.DOTALL) + "\n"
