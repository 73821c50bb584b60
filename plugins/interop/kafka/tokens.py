"""Tokens for kafka-python's clients, which do not fetch them as librdkafka does.

    KafkaAdminClient(**kafka_python(client))

A token is used for 0.8 of its life (`sasl.login.refresh.window.factor`); then the next connection that needs one
fetches a new one. If the identity provider cannot be reached, a token is used until it expires.

Decided: fetched on the thread that connects, within `sasl.login.connect.timeout.ms` and `sasl.login.read.timeout.ms`,
because a connection can do nothing before; loses: kafka-python's other connections wait meanwhile.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
import time
import uuid
from base64 import b64encode
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import httpx
import jwt
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from kafka import errors

from headrace.config.files import read_file
from headrace.config.kafka.client_config import ClientConfig
from headrace.config.kafka.client_oauth import JWT_BEARER, Assertion, OAuth
from headrace.config.kafka.msk_iam import MskIam
from headrace.plugins.interop.kafka.kafka_python_internals import AbstractTokenProvider

log = logging.getLogger(__name__)

_WINDOW: Final = 0.8
_PAUSE_S: Final = 1.0
"""Pause after a failure: kafka-python connects up to twenty times a second."""
_LARGEST_BYTES: Final = 1 << 20
_SHOWN: Final = 300


class _Token(NamedTuple):
    """A token; `until` is in seconds since the epoch."""

    text: str
    until: float


class KafkaTokens(AbstractTokenProvider):  # type: ignore[misc]
    """Tokens of one client, made by `make` at the current time; thread-safe."""

    def __init__(
        self,
        make: Callable[[float], tuple[str, float]],
        extensions: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`make` returns a token and its expiry, in seconds since the epoch. Errors of `make`: KafkaError."""
        super().__init__()
        self._make = make
        self._extensions = dict(extensions or {})
        self._clock = clock
        self._lock = threading.Lock()
        self._token = _Token("", 0)
        self._fresh_until = 0.0
        self._failure: errors.KafkaError | None = None
        self._failed_at = 0.0

    def token(self) -> str:
        """Return an unexpired token.

        Errors: KafkaConnectionError if its source cannot be reached, SaslAuthenticationFailedError if it refuses.
        """
        with self._lock:
            now = self._clock()
            if now < self._fresh_until:
                return self._token.text
            if self._failure is None or not 0 <= now - self._failed_at < _PAUSE_S:
                self._renew(now)
            if self._failure is None or now < self._token.until:
                return self._token.text
            raise self._failure

    def extensions(self) -> Mapping[str, str]:
        """Return the SASL extensions sent with the token."""
        return self._extensions

    def _renew(self, now: float) -> None:
        try:
            self._token = _Token(*self._make(now))
            self._fresh_until = now + _WINDOW * (self._token.until - now)
            self._failure = None
        except errors.KafkaError as error:
            if now < self._token.until:
                log.warning("No new token, the one before is used until it expires: %s", error)
            self._failure, self._failed_at = error, now


def kafka_python(client: ClientConfig) -> dict[str, Any]:
    """Return keyword arguments for kafka-python's clients, with a source of tokens if the login needs one.

    Errors: ConfigError, as `ClientConfig.kafka_python`.
    """
    kwargs = client.kafka_python()
    if (oauth := client.login.oauth) is not None:
        kwargs["sasl_oauth_token_provider"] = KafkaTokens(partial(fetched, oauth), dict(oauth.extensions))
    elif (iam := client.login.iam) is not None:
        kwargs["sasl_oauth_token_provider"] = KafkaTokens(partial(_signed_by_iam, iam))
    return kwargs


def fetched(oauth: OAuth, now: float) -> tuple[str, float]:
    """Fetch a new token from the endpoint. Errors: as `KafkaTokens.token`."""
    answer = _answer(oauth, now)
    text = answer.get("access_token") or answer.get("id_token")
    if not isinstance(text, str) or not text or not text.isascii():
        raise errors.SaslAuthenticationFailedError(f"{oauth.endpoint} answers without access_token")
    until = _expiry(text, answer, oauth, now)
    if until <= now:
        what = "whose time is over, or that says no time; compare the clocks of both machines"
        raise errors.SaslAuthenticationFailedError(f"{oauth.endpoint} gave a token {what}")
    return text, until


def _signed_by_iam(iam: MskIam, _: float) -> tuple[str, float]:
    try:
        return iam()
    except Exception as error:  # anything that botocore raises while it looks for credentials
        what = f"AWS' credentials give no token for MSK ({error or type(error).__name__})"
        raise errors.SaslAuthenticationFailedError(what) from error


def signed(assertion: Assertion, now: float) -> str:
    """Return the assertion for its identity provider. Errors: OSError, ValueError, jwt.PyJWTError."""
    if assertion.file is not None:
        return read_file(assertion.file).decode().strip()
    assert assertion.key_file is not None
    template = {}
    if assertion.template_file is not None:
        template = json.loads(read_file(assertion.template_file))
    times = {"iat": int(now), "exp": int(now) + assertion.expires_s, "nbf": int(now) - assertion.before_s}
    claims = {**dict(assertion.claims), **template.get("payload", {}), **times}
    if assertion.with_id:
        claims["jti"] = str(uuid.uuid4())
    passphrase = assertion.passphrase.encode() if assertion.passphrase else None
    key: Any = load_pem_private_key(read_file(assertion.key_file), passphrase)
    return jwt.encode(claims, key, assertion.algorithm, headers=template.get("header"))


def _answer(oauth: OAuth, now: float) -> Mapping[str, Any]:
    """Return the endpoint's answer, a JSON object. Errors: as `KafkaTokens`."""
    form, headers = {"scope": oauth.scope} if oauth.scope else {}, {"Accept": "application/json"}
    if oauth.assertion is None:
        form["grant_type"] = "client_credentials"
        login = b64encode(f"{oauth.client_id}:{oauth.client_secret}".encode()).decode()
        headers["Authorization"] = f"Basic {login}"
    else:
        try:
            form |= {"grant_type": JWT_BEARER, "assertion": signed(oauth.assertion, now)}
        except (OSError, ValueError, TypeError, AttributeError, jwt.PyJWTError) as error:
            what = f"the assertion cannot be made ({error}); look at the settings sasl.oauthbearer.assertion.*"
            raise errors.SaslAuthenticationFailedError(what) from error
    status, body = _posted(oauth, form, headers)
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if status == 200 and isinstance(answer, dict):
        return answer
    said = [answer.get(name) for name in ("error", "error_description")] if isinstance(answer, dict) else []
    words = " ".join(str(one)[:_SHOWN] for one in said if one)
    what = f"{oauth.endpoint} gave no token (HTTP status {status}{', ' if words else ''}{words})"
    if status in (408, 429) or status >= 500:
        raise errors.KafkaConnectionError(f"{what}; it is tried again")
    raise errors.SaslAuthenticationFailedError(f"{what}; look at clientId, clientSecret, scope and the URL")


def _posted(oauth: OAuth, form: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, bytes]:
    until = time.monotonic() + oauth.connect_s + oauth.read_s
    limits, body = httpx.Timeout(oauth.read_s, connect=oauth.connect_s), bytearray()
    try:
        # No redirects, which would carry the secret elsewhere. Proxies are the environment's, as for librdkafka.
        with (
            httpx.Client(verify=ssl.create_default_context(cadata=oauth.authorities), timeout=limits) as client,
            client.stream("POST", oauth.endpoint, data=dict(form), headers=dict(headers)) as response,
        ):
            for piece in response.iter_bytes():
                body += piece
                if len(body) > _LARGEST_BYTES or time.monotonic() > until:
                    raise errors.KafkaConnectionError(f"{oauth.endpoint} answers with too much, or too slowly")
            return response.status_code, bytes(body)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        what = f"{oauth.endpoint} gave no token: {error or type(error).__name__}"
        hint = "see that it can be reached from here, and that ssl.truststore.location in sasl.jaas.config fits it"
        raise errors.KafkaConnectionError(f"{what}; {hint}") from error


def _expiry(text: str, answer: Mapping[str, Any], oauth: OAuth, now: float) -> float:
    """Return the expiry from the token, else from the answer; an opaque token is left to the broker."""
    try:
        algorithm = str(jwt.get_unverified_header(text).get("alg", "none"))
        says = jwt.decode(text, options={"verify_signature": False}).get("exp")
    except jwt.PyJWTError:
        algorithm, says = "", None
    if algorithm.lower() == "none":
        raise errors.SaslAuthenticationFailedError(f"{oauth.endpoint} gave a token without signature: it is refused")
    try:
        return float(says) if says is not None else now + float(answer.get("expires_in", 0))
    except (TypeError, ValueError):
        return 0.0
