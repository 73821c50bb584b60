"""Logins of the HTTP connectors: headers that are fixed, or a token of OAuth's client credentials grant."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.http.attempts import is_passing
from headrace.plugins.interop.http.client import HttpAnswer, HttpClient, ServerUnavailable, basic_header, masked
from headrace.plugins.interop.http.tokens import OAuthTokens, Token

_BUFFER_S: Final = 30.0
_FORM: Final = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class TokenRequest:
    """A request for a token; `key` names the setting of its URL."""

    key: str
    url: str
    client_id: str
    client_secret: str = field(repr=False)
    in_header: bool = True
    """True: id and secret are a Basic login; else they are members of the form."""
    scope: str | None = None
    property: str = "access_token"
    grant: str = "client_credentials"
    grant_property: str = "grant_type"
    id_property: str = "client_id"
    secret_property: str = "client_secret"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    advice: str = ""

    def send(self, client: HttpClient, until_s: float) -> HttpAnswer:
        """Ask for a token. Errors: ServerUnavailable, ConfigError."""
        form = {self.grant_property: self.grant} | ({"scope": self.scope} if self.scope else {})
        headers = {"Content-Type": _FORM, "Accept": "application/json", **self.headers}
        if self.in_header:
            headers |= basic_header(f"{self.client_id}:{self.client_secret}")
        else:
            form |= {self.id_property: self.client_id, self.secret_property: self.client_secret}
        body = urlencode(form).encode()
        try:
            answer = client.exchange("POST", self.url, key=self.key, headers=headers, body=body, until_s=until_s)
        except ServerUnavailable as error:
            raise ServerUnavailable(f"the token endpoint {masked(self.url)}: {error}") from error
        if is_passing(answer.status):
            raise ServerUnavailable(f"the token endpoint {masked(self.url)} answered {answer.status}")
        return answer

    def refused(self, status: int) -> ConfigError:
        """The error for an answer without a token."""
        what = f"It gave no token (HTTP status {status})."
        return ConfigError(Problem(self.key, masked(self.url), what, self.advice))


class Login:
    """Adds to each request what shows who sends it; any thread may ask."""

    def __init__(self, fixed: Mapping[str, str] | None = None) -> None:
        self._fixed = dict(fixed or {})

    def headers(self, until_s: float) -> Mapping[str, str]:
        """The headers of one request. Errors: ServerUnavailable, ConfigError."""
        return self._fixed

    def renewed(self, status: int, sent: Mapping[str, str]) -> bool:
        """True if a request that was answered with this status is to be sent again with another login."""
        return False


class TokenLogin(Login):
    """A bearer of tokens, which are renewed shortly before they expire, and after certain statuses."""

    def __init__(self, request: TokenRequest, client: HttpClient, renew_on: frozenset[int] = frozenset({401})) -> None:
        super().__init__()
        self._renew_on = renew_on
        self._tokens = OAuthTokens(
            lambda until_s: request.send(client, until_s),
            request.refused,
            _BUFFER_S,
            math.inf,
            request.property,
        )

    def headers(self, until_s: float) -> Mapping[str, str]:
        """A token of its type. Errors: as `Login.headers`."""
        token = self._tokens.current(until_s)
        return {"Authorization": f"{token.type} {token.text}"}

    def renewed(self, status: int, sent: Mapping[str, str]) -> bool:
        """Forget the token that was sent, if the status says so."""
        if status not in self._renew_on:
            return False
        kind, _, text = sent["Authorization"].partition(" ")
        self._tokens.forget(Token(text, kind))
        return True


def merged(*headers: Mapping[str, str]) -> dict[str, str]:
    """All of these headers; a later one replaces an earlier one of its name, in any case."""
    found: dict[str, tuple[str, str]] = {}
    for some in headers:
        found |= {name.lower(): (name, value) for name, value in some.items()}
    return dict(found.values())


def check_header(key: str, text: str, subject: str = "It") -> None:
    """Refuse a text that HTTP cannot carry in a header. Errors: ConfigError, which does not quote it."""
    if not (text.isascii() and text.isprintable()):
        what = f"{subject} has characters that HTTP cannot carry."
        raise ConfigError(Problem(key, None, what, "Write the value in one line of ASCII."))


def parsed_headers(text: str, separator: str, key: str) -> dict[str, str]:
    """The headers in `Name:value` items. Errors: ConfigError, which quotes no value."""
    found: dict[str, str] = {}
    for item in filter(None, (one.strip() for one in text.split(separator))):
        name, colon, value = (one.strip() for one in item.partition(":"))
        if not colon or not name or not name.isascii() or any(char in name for char in ' \t"(),/;<=>?@[]{}\\'):
            what = f"The item {len(found) + 1} is not Name:value."
            raise ConfigError(Problem(key, None, what, f"Write headers as Name:value, with {separator!r} in between."))
        check_header(key, value, f"The header {name}")
        if name.lower() in (one.lower() for one in found):
            what = f"The header {name} is named twice."
            raise ConfigError(Problem(key, None, what, "Write one header with both values."))
        found[name] = value
    return found
