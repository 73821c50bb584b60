"""Tokens for SASL's OAUTHBEARER, from settings of Kafka's Java clients.

    client credentials   client.credentials.client.id and .secret, or clientId and clientSecret in sasl.jaas.config
    jwt-bearer           sasl.oauthbearer.jwt.retriever.class=…JwtBearerJwtRetriever and sasl.oauthbearer.assertion.*
                         (KIP-1139): a signed assertion instead of a secret

Unsecured tokens (`unsecuredLoginStringClaim_sub`) are refused, because anybody can write one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus, urlsplit

from headrace.config.files import is_readable, read_file
from headrace.config.key_stores import KeyStoreError, pem, trusted
from headrace.config.problems import Problem
from headrace.config.values import HIDDEN

_OAUTHBEARER: Final = "org.apache.kafka.common.security.oauthbearer."
LOGIN_MODULE: Final = f"{_OAUTHBEARER}OAuthBearerLoginModule"
JWT_BEARER_RETRIEVER: Final = f"{_OAUTHBEARER}JwtBearerJwtRetriever"
JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_PREFIX: Final = "sasl.oauthbearer."
_ENDPOINT: Final = f"{_PREFIX}token.endpoint.url"
_JAAS: Final = "sasl.jaas.config"
_EXTENSION: Final = "extension_"
_UNSECURED: Final = "unsecuredLogin"
_TRUST: Final = ("ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.type")
_CERTIFICATES: Final = "ssl.truststore.certificates"
_WAIT_MS: Final = 10_000


@dataclass(frozen=True)
class Assertion:
    """A signed statement of the client's identity: read from `file`, or signed with the private key."""

    file: str | None = None
    algorithm: str = "RS256"
    key_file: str | None = None
    passphrase: str | None = field(default=None, repr=False)
    template_file: str | None = None
    claims: tuple[tuple[str, str], ...] = ()
    """The claims `aud`, `iss` and `sub` that are set."""
    expires_s: int = 300
    before_s: int = 60
    with_id: bool = False

    def librdkafka(self) -> dict[str, Any]:
        """Keys of librdkafka."""
        keys: dict[str, Any] = {"grant.type": JWT_BEARER}
        if self.file is not None:
            keys["assertion.file"] = self.file
        else:
            keys |= {
                "assertion.algorithm": self.algorithm,
                "assertion.private.key.file": self.key_file,
                "assertion.private.key.passphrase": self.passphrase,
                "assertion.jwt.template.file": self.template_file,
                **{f"assertion.claim.{name}": value for name, value in self.claims},
                "assertion.claim.exp.seconds": self.expires_s,
                "assertion.claim.nbf.seconds": self.before_s,
                "assertion.claim.jti.include": self.with_id,
            }
        return {f"{_PREFIX}{key}": value for key, value in keys.items() if value is not None}


@dataclass(frozen=True)
class OAuth:
    """A token endpoint and the client's credentials for it."""

    endpoint: str
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    assertion: Assertion | None = None
    """Replaces the client's id and secret."""
    scope: str = ""
    extensions: tuple[tuple[str, str], ...] = ()
    """SASL extensions sent to the broker with the token."""
    authorities: str | None = field(default=None, repr=False)
    """PEM text of the authorities for an https endpoint's certificate; None: the system's."""
    connect_s: float = _WAIT_MS / 1000
    read_s: float = _WAIT_MS / 1000

    def librdkafka(self) -> dict[str, Any]:
        """Keys of librdkafka, which fetches tokens itself."""
        keys: dict[str, Any] = {
            f"{_PREFIX}method": "oidc",
            _ENDPOINT: self.endpoint,
            f"{_PREFIX}client.id": self.client_id,
            f"{_PREFIX}client.secret": self.client_secret,
            f"{_PREFIX}scope": self.scope,
            f"{_PREFIX}extensions": ",".join(f"{key}={value}" for key, value in self.extensions),
            "https.ca.pem": self.authorities,
        }
        own = {} if self.assertion is None else self.assertion.librdkafka()
        return {key: value for key, value in keys.items() if value} | own


def oauth(java: Mapping[str, str], options: Mapping[str, str], problems: list[Problem]) -> OAuth:
    """The token endpoint and credentials of these settings and login module options; faults are added to `problems`."""
    if any(name.startswith(_UNSECURED) for name in options):
        what = "Unsecured tokens are refused: anybody can write one."
        problems.append(Problem(_JAAS, HIDDEN, what, "Let an identity provider issue tokens: clientId, clientSecret."))
    endpoint = java.get(_ENDPOINT, "").strip()
    # CVE-2025-27817: a file: URL reads this machine's files.
    if urlsplit(endpoint).scheme not in ("http", "https"):
        message = "It must be an http or https URL."
        remedy = "Set it to the token endpoint of your identity provider."
        problems.append(Problem(_ENDPOINT, endpoint or None, message, remedy))
    client_id = java.get(f"{_PREFIX}client.credentials.client.id") or options.get("clientId", "")
    secret = java.get(f"{_PREFIX}client.credentials.client.secret") or options.get("clientSecret", "")
    assertion = None
    if java.get(f"{_PREFIX}jwt.retriever.class", "").strip() == JWT_BEARER_RETRIEVER:
        client_id = secret = ""
        assertion = _assertion(java, problems)
    elif not client_id or not secret:
        remedy = 'Add clientId="…" clientSecret="…" to it.'
        problems.append(Problem(_JAAS, HIDDEN, "It has no clientId and clientSecret.", remedy))
    elif java.get(f"{_PREFIX}header.urlencode", "false").strip().lower() == "true":
        client_id, secret = quote_plus(client_id), quote_plus(secret)
    return OAuth(
        endpoint,
        client_id,
        secret,
        assertion,
        java.get(f"{_PREFIX}scope") or options.get("scope", ""),
        tuple((k.removeprefix(_EXTENSION), v) for k, v in options.items() if k.startswith(_EXTENSION)),
        _authorities(options, problems),
        _seconds(java, "sasl.login.connect.timeout.ms"),
        _seconds(java, "sasl.login.read.timeout.ms"),
    )


def _seconds(java: Mapping[str, str], key: str) -> float:
    text = java.get(key, "").strip()
    return int(text) / 1000 if text.isdecimal() and int(text) else _WAIT_MS / 1000


def _assertion(java: Mapping[str, str], problems: list[Problem]) -> Assertion | None:
    given = {key.removeprefix(f"{_PREFIX}assertion."): value.strip() for key, value in java.items() if value.strip()}
    own = f"{_PREFIX}assertion."
    for name in ("file", "private.key.file", "template.file"):
        if name in given and not is_readable(given[name]):
            problems.append(Problem(own + name, given[name], "There is no such file.", "Check its name."))
    if "file" in given:
        return Assertion(file=given["file"])
    if "private.key.file" not in given:
        remedy = f"Set it to a PEM file with the key that signs assertions, or {own}file to a finished one."
        problems.append(Problem(f"{own}private.key.file", None, "Tokens by jwt-bearer need it.", remedy))
        return None
    if "template.file" not in given and not {f"claim.{name}" for name in ("aud", "iss", "sub")} & given.keys():
        remedy = f"Set {own}claim.aud, {own}claim.iss and {own}claim.sub as your identity provider wants them."
        problems.append(Problem(f"{own}claim.sub", None, "The assertion would name nobody.", remedy))
    return Assertion(
        algorithm=given.get("algorithm", "RS256").upper(),
        key_file=given["private.key.file"],
        passphrase=given.get("private.key.passphrase"),
        template_file=given.get("template.file"),
        claims=tuple((name, given[f"claim.{name}"]) for name in ("aud", "iss", "sub") if f"claim.{name}" in given),
        expires_s=_number(given, "claim.exp.seconds", 300),
        before_s=_number(given, "claim.nbf.seconds", 60),
        with_id=given.get("claim.jti.include", "false").lower() == "true",
    )


def _number(given: Mapping[str, str], key: str, default: int) -> int:
    """The number; the default if it is none, which is checked elsewhere."""
    text = given.get(key, "")
    return int(text) if text.isdecimal() else default


def _authorities(options: Mapping[str, str], problems: list[Problem]) -> str | None:
    """The authorities in the login module's options; as in Java the client's `ssl.*` are for brokers only."""
    unserved = [key for key in options if key.startswith("ssl.") and key not in (*_TRUST, _CERTIFICATES)]
    if unserved:
        what = f"{', '.join(unserved)} is not served towards the token endpoint."
        problems.append(Problem(_JAAS, HIDDEN, what, "Remove it; ssl.truststore.* alone is."))
    if certificates := options.get(_CERTIFICATES):
        return pem(certificates)
    location = options.get("ssl.truststore.location")
    if location is None:
        return None
    try:
        return trusted(read_file(location), options.get("ssl.truststore.password"))
    except (OSError, KeyStoreError) as error:
        what = f"Its ssl.truststore.location {location} cannot be read: {error}."
        problems.append(Problem(_JAAS, HIDDEN, what, "Check the name of the store, and its password."))
        return None
