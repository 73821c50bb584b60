"""TLS and SASL of Kafka's Java clients, translated for librdkafka, kafka-python and Spark.

Nothing here loads a class that a user names. Login modules are parsed, and for the JVM within Spark the JAAS text is
written anew from the parts (CVE-2023-25194 and its successors used that way).
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from headrace.config.files import read_file
from headrace.config.kafka import msk_iam
from headrace.config.kafka.client_oauth import LOGIN_MODULE, OAuth, oauth
from headrace.config.key_stores import KeyStoreError, StoreFormat, identity, load_identity, pem, store_format, trusted
from headrace.config.problems import Problem
from headrace.config.values import HIDDEN

_MODULES: Final = "org.apache.kafka.common.security."
_PLAIN: Final = f"{_MODULES}plain.PlainLoginModule"
_SCRAM: Final = f"{_MODULES}scram.ScramLoginModule"
_MECHANISMS: Final = {
    _PLAIN: ("PLAIN",),
    _SCRAM: ("SCRAM-SHA-256", "SCRAM-SHA-512"),
    LOGIN_MODULE: ("OAUTHBEARER",),
    msk_iam.LOGIN_MODULE: (msk_iam.MECHANISM,),
}
_JAAS: Final = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?P<flag>\w+)(?P<options>.*?);\s*", re.DOTALL)
_OPTION: Final = re.compile(r"""\s*([\w.\-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;]+)""")


@dataclass(frozen=True)
class Jaas:
    """A login module of `sasl.jaas.config` with its options."""

    module: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> Jaas:
    """The one login module of a `sasl.jaas.config`. Errors: ValueError without the text, which has secrets."""
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
    """A client's SASL login; `mechanism` is None without SASL."""

    mechanism: str | None = None
    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    oauth: OAuth | None = None
    iam: msk_iam.MskIam | None = None

    @property
    def is_by_token(self) -> bool:
        """True if the login needs a token, which must be fetched or signed first."""
        return self.oauth is not None or self.iam is not None

    @property
    def user(self) -> str:
        """The user's name, as errors may show it."""
        if self.iam is not None:
            return self.iam.role or self.iam.profile or "of AWS' credentials here"
        return self.username if self.oauth is None else self.oauth.client_id or "that the assertion names"

    def librdkafka(self) -> dict[str, Any]:
        """Keys of librdkafka."""
        if self.mechanism is None:
            return {}
        if self.oauth is not None:
            return {"sasl.mechanism": self.mechanism, **self.oauth.librdkafka()}
        if self.iam is not None:
            return {"sasl.mechanism": self.mechanism, "oauth_cb": self.iam}
        return {"sasl.mechanism": self.mechanism, "sasl.username": self.username, "sasl.password": self.password}

    def kafka_python(self) -> dict[str, Any]:
        """Keyword arguments of kafka-python; `plugins/interop/kafka/tokens.py` adds the source of tokens."""
        if self.mechanism is None or self.is_by_token:
            return {} if self.mechanism is None else {"sasl_mechanism": self.mechanism}
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
        }

    def java(self) -> dict[str, str]:
        """Settings for Kafka's Java client, the JAAS text written anew; empty for a login by token."""
        if self.mechanism is None or self.is_by_token:
            return {}
        module = _PLAIN if self.mechanism == "PLAIN" else _SCRAM
        jaas = _jaas_text(module, {"username": self.username, "password": self.password})
        return {"sasl.mechanism": self.mechanism, "sasl.jaas.config": jaas}


def _jaas_text(module: str, options: Mapping[str, str]) -> str:
    words = [f"{name}={_quoted(value)}" for name, value in options.items() if value]
    return " ".join([module, "required", *words]) + ";"


def login(java: Mapping[str, str], problems: list[Problem]) -> Login:
    """The login of these settings; unsupported ones are added to `problems`."""
    if not java.get("security.protocol", "PLAINTEXT").strip().upper().startswith("SASL"):
        return Login()
    text = java.get("sasl.jaas.config", "")
    if msk_iam.is_asked_for(java):
        return _by_iam(java, text, problems)
    mechanism = java.get("sasl.mechanism", "GSSAPI").strip().upper()
    if mechanism == "OAUTHBEARER":
        return _by_tokens(java, text, problems)
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


def _by_tokens(java: Mapping[str, str], text: str, problems: list[Problem]) -> Login:
    options = _module_options(text, "OAUTHBEARER", problems) if text.strip() else {}
    return Login() if options is None else Login("OAUTHBEARER", oauth=oauth(java, options, problems))


def _by_iam(java: Mapping[str, str], text: str, problems: list[Problem]) -> Login:
    options = _module_options(text, java.get("sasl.mechanism", "").strip().upper(), problems)
    if options is None:
        return Login()
    return Login("OAUTHBEARER", iam=msk_iam.msk_iam(java, options, problems))


@dataclass(frozen=True)
class Tls:
    """The certificates that a client trusts and shows; `librdkafka` has them by that library's keys."""

    librdkafka: Mapping[str, Any] = field(default_factory=dict, repr=False)
    types: Mapping[str, str] = field(default_factory=dict)
    """The stores' formats as settings of Kafka's Java client."""

    def java(self) -> dict[str, str]:
        """The settings that Kafka's Java client needs beside the user's: the stores' formats."""
        return dict(self.types)

    def kafka_python(self) -> dict[str, Any]:
        """Keyword arguments of kafka-python. Errors: ValueError, OSError."""
        if not self.librdkafka:
            return {}
        keys = self.librdkafka
        context = ssl.create_default_context(cafile=keys.get("ssl.ca.location"), cadata=keys.get("ssl.ca.pem"))
        context.check_hostname = keys["ssl.endpoint.identification.algorithm"] == "https"
        password = keys.get("ssl.key.password")
        if "ssl.key.pem" in keys:
            load_identity(context, keys["ssl.key.pem"] + keys["ssl.certificate.pem"], password)
        elif "ssl.key.location" in keys:
            context.load_cert_chain(keys["ssl.key.location"], password=password)
        return {"ssl_context": context}


def tls(java: Mapping[str, str], problems: list[Problem]) -> Tls:
    """The certificates of these settings; unsupported settings are added to `problems`."""
    if not java.get("security.protocol", "PLAINTEXT").strip().upper().endswith("SSL"):
        return Tls()
    check = java.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
    keys: dict[str, Any] = {"ssl.endpoint.identification.algorithm": check or "none"}
    types: dict[str, str] = {}
    if certificates := java.get("ssl.truststore.certificates"):
        keys["ssl.ca.pem"] = pem(certificates)
        types["ssl.truststore.type"] = StoreFormat.PEM
    elif java.get("ssl.truststore.location"):
        _store("truststore", _trust, java, keys, types, problems)
    if password := java.get("ssl.key.password"):
        keys["ssl.key.password"] = password
    if key := java.get("ssl.keystore.key"):
        keys |= {"ssl.key.pem": pem(key), "ssl.certificate.pem": pem(java.get("ssl.keystore.certificate.chain", ""))}
        types["ssl.keystore.type"] = StoreFormat.PEM
    elif java.get("ssl.keystore.location"):
        _store("keystore", _identity, java, keys, types, problems)
    return Tls(keys, types)


class _Store(NamedTuple):
    location: str
    data: bytes
    form: StoreFormat
    password: str | None
    key_password: str | None


def _store(
    kind: str,
    taken: Callable[[_Store, dict[str, Any]], None],
    java: Mapping[str, str],
    keys: dict[str, Any],
    types: dict[str, str],
    problems: list[Problem],
) -> None:
    """Adds a key or trust store to librdkafka's keys; its faults are added to `problems`."""
    key = f"ssl.{kind}.location"
    location = java[key]
    try:
        data = read_file(location)
    except OSError as e:
        remedy = "Check its name and who may read it."
        problems.append(Problem(key, location, f"The file cannot be read: {e.strerror or e}.", remedy))
        return
    form = store_format(data)
    if form is None:
        remedy = "Name a PEM, PKCS12 or JKS store."
        problems.append(Problem(key, location, "Its format is not known.", remedy))
        return
    if form is not StoreFormat.JKS:  # the user's type tells JKS from JCEKS
        types[f"ssl.{kind}.type"] = form
    try:
        taken(_Store(location, data, form, java.get(f"ssl.{kind}.password"), java.get("ssl.key.password")), keys)
    except KeyStoreError as e:
        remedy = f"Check ssl.{kind}.password, and that the file is complete."
        problems.append(Problem(key, location, f"The store cannot be opened: {e}.", remedy))


def _trust(store: _Store, keys: dict[str, Any]) -> None:
    if store.form is StoreFormat.PEM:
        keys["ssl.ca.location"] = store.location
    else:
        keys["ssl.ca.pem"] = trusted(store.data, store.password)


def _identity(store: _Store, keys: dict[str, Any]) -> None:
    if store.form is StoreFormat.PEM:
        keys |= {"ssl.key.location": store.location, "ssl.certificate.location": store.location}
        return
    keys["ssl.key.pem"], keys["ssl.certificate.pem"] = identity(store.data, store.password, store.key_password)
    keys.pop("ssl.key.password", None)
