"""The login by Confluent's setting names, which its sink and its source share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Settings, Type
from headrace.config.validators import OneOfIgnoringCase
from headrace.connectors.http.login import Login, TokenLogin, TokenRequest, check_header, parsed_headers
from headrace.connectors.http.settings import URL_OR_NONE, option, plain, required
from headrace.plugins.interop.http.client import HttpClient, basic_header

_OAUTH: Final = ("oauth2.token.url", "oauth2.client.id", "oauth2.client.secret")


def login_settings(*kinds: str) -> Settings:
    """The settings of the login, which may be of these kinds."""
    return Settings(
        option("auth.type", Type.STRING, "NONE", f"The login: {', '.join(kinds)}.", OneOfIgnoringCase(*kinds)),
        option("connection.user", Type.STRING, None, "The user, for BASIC."),
        option("connection.password", Type.PASSWORD, None, "The password, for BASIC."),
        option("oauth2.token.url", Type.STRING, None, "Where tokens are fetched, for OAUTH2.", URL_OR_NONE),
        option("oauth2.client.id", Type.STRING, None, "The client's id, for OAUTH2."),
        option("oauth2.client.secret", Type.PASSWORD, None, "The client's secret, for OAUTH2."),
        option("oauth2.client.scope", Type.STRING, "any", "The scope that is asked for."),
        option("oauth2.token.property", Type.STRING, "access_token", "The member of the answer with the token."),
        option(
            "oauth2.client.auth.mode",
            Type.STRING,
            "header",
            "How id and secret are sent: header (Basic), or url (in the form).",
            OneOfIgnoringCase("header", "url"),
        ),
        option("oauth2.client.headers", Type.PASSWORD, "", "Headers of requests for tokens, as Name:value."),
        option("oauth2.client.header.separator", Type.STRING, "|", "What separates these headers."),
        option("oauth2.jwt.enabled", Type.BOOLEAN, False, "Signed assertions; not served."),
    )


def login_of(values: Mapping[str, Any], client: HttpClient) -> Login:
    """The login of these parsed settings. Errors: ConfigError."""
    kind = values["auth.type"].upper()
    if kind == "BASIC":
        required(values, "for auth.type=BASIC", "connection.user", "connection.password")
        return Login(basic_header(f"{values['connection.user']}:{plain(values['connection.password'])}"))
    if kind == "BEARER":
        required(values, "for auth.type=BEARER", "bearer.token")
        check_header("bearer.token", plain(values["bearer.token"]))
        return Login({"Authorization": f"Bearer {plain(values['bearer.token'])}"})
    return _oauth(values, client) if kind == "OAUTH2" else Login()


def _oauth(values: Mapping[str, Any], client: HttpClient) -> Login:
    if values["oauth2.jwt.enabled"]:
        what = "Signed assertions (JWT) are not served."
        raise ConfigError(Problem("oauth2.jwt.enabled", "true", what, "Use oauth2.client.id and oauth2.client.secret."))
    required(values, "for auth.type=OAUTH2", *_OAUTH)
    url, client_id, secret = (plain(values[key]) for key in _OAUTH)
    separator = values["oauth2.client.header.separator"] or "|"
    request = TokenRequest(
        _OAUTH[0],
        url,
        client_id,
        secret,
        values["oauth2.client.auth.mode"].lower() == "header",
        values["oauth2.client.scope"],
        values["oauth2.token.property"],
        headers=parsed_headers(plain(values["oauth2.client.headers"]), separator, "oauth2.client.headers"),
        advice="Check oauth2.client.id, oauth2.client.secret, oauth2.client.scope and oauth2.token.property.",
    )
    return TokenLogin(request, client)
