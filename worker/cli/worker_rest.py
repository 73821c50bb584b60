"""A worker's REST API, as commands ask it."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from headrace.config.values import without_login
from headrace.worker.cli.exits import CommandFailed
from headrace.worker.cli.login import LOCAL, Login

_TIMEOUT_S: Final = 100.0
"""Exceeds the 90 s after which a worker answers that a request timed out."""
_TOKEN: Final = re.compile("[!-~]+")
_OTHER: Final = "--rest names another"


class Refused(CommandFailed):
    """A worker answered with an error; `status` is HTTP's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class WorkerRest:
    """The REST API of one worker."""

    def __init__(self, login: Login, timeout_s: float = _TIMEOUT_S) -> None:
        """Errors: CommandFailed for a login that cannot be used."""
        self._shown = without_login(login.rest.rstrip("/"))
        self._http = httpx.Client(
            base_url=_url(login.rest),
            headers=_bearer(login),
            auth=None if login.user is None else httpx.BasicAuth(*_pair(login.user)),
            timeout=timeout_s,
            verify=_trusted(login),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connections."""
        self._http.close()

    def asked(self, method: str, path: str, body: Any = None, query: Mapping[str, str] | None = None) -> Any:
        """Return the JSON of the worker's answer. Errors: Refused; CommandFailed.

        Only a GET follows redirects: HTTP makes some other requests a GET then, and a config is for this host.
        """
        try:
            follows = method == "GET"
            answer = self._http.request(method, path, json=body, params=query, follow_redirects=follows)
        except httpx.HTTPError as error:
            raise CommandFailed(f"no worker answers at {self._shown}: {error}; {_OTHER}", 3) from error
        if answer.has_redirect_location:
            target = without_login(answer.headers["Location"])
            raise CommandFailed(f"what answers at {self._shown} redirects {path} to {target}; {_OTHER}", 3)
        try:
            said: Any = answer.json() if answer.content else None
            message = None if answer.is_success else str(said["message"])
        except (ValueError, KeyError, TypeError) as error:
            text = f"{answer.status_code} {answer.text[:100]!r}"
            raise CommandFailed(f"what answers at {self._shown} is no worker: {text}; {_OTHER}", 3) from error
        if message is not None:
            text = f"the worker at {self._shown} answers {method} {path} with {answer.status_code}: {message}"
            raise Refused(text, answer.status_code)
        return said

    @contextmanager
    def understood(self) -> Iterator[None]:
        """Refuse an answer without what the block reads of it. Errors: CommandFailed."""
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            text = f"what answers at {self._shown} is no worker of Headrace: {error!r}"
            raise CommandFailed(f"{text}; {_OTHER}", 3) from error


def connector_path(name: str) -> str:
    """Return the path of a connector."""
    return f"/connectors/{quote(name, safe='')}"


def plugin_path(config: Mapping[str, str | None]) -> str:
    """Return the path of the plugin that a config names."""
    return f"/connector-plugins/{quote(config.get('connector.class') or '', safe='')}/config"


def _url(rest: str) -> httpx.URL:
    wrong = f"--rest: write the URL of a worker, such as {LOCAL}"  # without what was written, which may have a login
    try:
        url = httpx.URL(rest.rstrip("/"))
    except httpx.InvalidURL:
        raise CommandFailed(wrong, 2) from None
    if url.scheme not in ("http", "https") or not url.host:
        raise CommandFailed(wrong, 2)
    return url


def _bearer(login: Login) -> dict[str, str]:
    if login.token is None:
        return {}
    if login.user is not None:
        raise CommandFailed("--user and --token (HEADRACE_USER, HEADRACE_TOKEN): only one of them can be sent", 2)
    if not _TOKEN.fullmatch(login.token):
        raise CommandFailed("--token: it has blanks or characters that no token can have", 2)
    return {"Authorization": f"Bearer {login.token}"}


def _pair(user: str) -> tuple[str, str]:
    name, colon, password = user.partition(":")
    if not colon:
        raise CommandFailed("--user: write NAME:PASSWORD", 2)
    return name, password


def _trusted(login: Login) -> ssl.SSLContext | bool:
    if login.cacert is None and login.cert is None:
        return True
    try:
        context = ssl.create_default_context(cafile=login.cacert)
    except OSError as error:
        raise CommandFailed(f"--cacert {login.cacert} cannot be read: {error.strerror or error}", 2) from error
    if login.cert is not None:
        try:
            context.load_cert_chain(login.cert)
        except OSError as error:
            raise CommandFailed(f"--cert {login.cert} cannot be read: {error.strerror or error}", 2) from error
    return context
