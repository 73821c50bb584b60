"""The login of the schema registry's client: Basic from URL, user info or SASL login; Bearer from token or OAuth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from headrace.config.kafka.client_security import parse_jaas
from headrace.config.settings import ConfigError, Password, Problem
from headrace.plugins.interop.http.client import HttpAnswer, basic_header, masked
from headrace.plugins.interop.http.tokens import OAuthTokens

Authorization = Callable[[str, float], Mapping[str, str]]
"""Returns headers for a node, given its URL's `user:password`; may fetch a token until this monotonic time.

Errors: ServerUnavailable, ConfigError.
"""

Fetch = Callable[[str, Mapping[str, str], tuple[str, str], float], HttpAnswer]
"""Posts a form to a URL with this user and password, until this monotonic time. Errors: as `Authorization`."""

_BASIC: Final = "basic.auth.credentials.source"
_BEARER: Final = "bearer.auth.credentials.source"


def authorization(config: Mapping[str, str], values: Mapping[str, Any], fetch: Fetch) -> Authorization:
    """The source of headers by these settings; `values`: `config` parsed. Errors: ConfigError."""
    basic, bearer = config.get(_BASIC, "").strip(), config.get(_BEARER, "").strip()
    if basic and bearer:
        raise ConfigError(Problem(_BEARER, bearer, f"Only one of '{_BASIC}' and '{_BEARER}' may be specified."))
    if bearer or (not basic and values["bearer.auth.token"]):
        return _bearer(bearer or "STATIC_TOKEN", values, fetch)
    return _basic(basic or "URL", values)


def _basic(source: str, values: Mapping[str, Any]) -> Authorization:
    if source == "URL":
        return lambda user_info, _: basic_header(user_info) if user_info else {}
    if source == "USER_INFO":
        key = "basic.auth.user.info"
        found = _plain(values[key]) or _plain(values[f"schema.registry.{key}"])
        if not found:
            raise ConfigError(Problem(key, None, f"It must be provided when {_BASIC} is set to USER_INFO."))
        return lambda *_: basic_header(found)
    if source == "SASL_INHERIT":
        login = _sasl(_plain(values["sasl.jaas.config"]))
        return lambda *_: basic_header(login)
    raise ConfigError(Problem(_BASIC, source, "It is not known.", "Set it to URL, USER_INFO or SASL_INHERIT."))


def _sasl(jaas: str) -> str:
    remedy = "Write the login of Kafka's client into this converter's sasl.jaas.config, with username and password."
    try:
        options = parse_jaas(jaas).options
        return f"{options['username']}:{options['password']}"
    except KeyError as error:
        raise ConfigError(Problem("sasl.jaas.config", None, f"It has no {error.args[0]}.", remedy)) from None
    except ValueError as error:
        raise ConfigError(Problem("sasl.jaas.config", None, f"SASL_INHERIT needs it: {error}.", remedy)) from None


def _bearer(source: str, values: Mapping[str, Any], fetch: Fetch) -> Authorization:
    cluster, pool = values["bearer.auth.logical.cluster"], values["bearer.auth.identity.pool.id"]
    named = {"target-sr-cluster": cluster, "Confluent-Identity-Pool-Id": pool}
    headers = {name: value for name, value in named.items() if value}
    if source == "STATIC_TOKEN":
        token = _plain(values["bearer.auth.token"])
        if not token:
            raise ConfigError(Problem("bearer.auth.token", None, f"It must be provided for {_BEARER}=STATIC_TOKEN."))
        return lambda *_: headers | {"Authorization": f"Bearer {token}"}
    if source == "OAUTHBEARER":
        tokens = _tokens(values, fetch)
        return lambda _, until_s: headers | {"Authorization": f"Bearer {tokens.current(until_s).text}"}
    raise ConfigError(Problem(_BEARER, source, "It is not served.", "Set it to STATIC_TOKEN or OAUTHBEARER."))


def _tokens(values: Mapping[str, Any], fetch: Fetch) -> OAuthTokens:
    missing = [
        key
        for key in ("bearer.auth.issuer.endpoint.url", "bearer.auth.client.id", "bearer.auth.client.secret")
        if not values[key]
    ]
    if missing:
        raise ConfigError([Problem(key, None, f"It must be provided for {_BEARER}=OAUTHBEARER.") for key in missing])
    issuer = values["bearer.auth.issuer.endpoint.url"]
    if urlsplit(issuer).scheme not in ("http", "https"):
        what = "It must be an http or https URL."
        raise ConfigError(Problem("bearer.auth.issuer.endpoint.url", masked(issuer), what))
    scope = values["bearer.auth.scope"]
    form = {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    login = (values["bearer.auth.client.id"], _plain(values["bearer.auth.client.secret"]))
    return OAuthTokens(
        partial(fetch, issuer, form, login),
        partial(_no_token, issuer),
        values["bearer.auth.cache.expiry.buffer.seconds"],
    )


def _no_token(issuer: str, status: int) -> ConfigError:
    remedy = "Check bearer.auth.client.id, bearer.auth.client.secret and bearer.auth.scope."
    what = f"It gave no token (HTTP status {status})."
    return ConfigError(Problem("bearer.auth.issuer.endpoint.url", masked(issuer), what, remedy))


def _plain(secret: Any) -> str:
    return secret.value if isinstance(secret, Password) else secret or ""


def user_info(url: str) -> str:
    """The URL's `user:password`, percent-decoded; empty if it has none."""
    before, at, _ = urlsplit(url).netloc.rpartition("@")
    return unquote(before) if at else ""
