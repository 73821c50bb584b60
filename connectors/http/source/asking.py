"""Asks a server for JSON, with its retries.

RetriableError   no answer, or that of a busy or failing server, after all retries; or an answer that is no JSON
LoginRefused     401, 407
AnswerRefused    any other status that the settings do not accept
ConfigError      a host that is not allowed, a certificate that is not trusted
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from headrace.connectors.http.attempts import Retries, Statuses, asked_pause_s, excerpt, is_login_refused, is_passing
from headrace.connectors.http.login import Login, merged
from headrace.plugins.errors import LoginRefused, RetriableError, StoppedError
from headrace.plugins.interop.http.client import REDIRECTS, HttpAnswer, HttpClient, ServerUnavailable, masked
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)

_TOKEN_S: Final = 60.0
_GETS: Final = ("GET", "HEAD")


class AnswerRefused(Exception):
    """An answer whose status says that the request is wrong."""


class Ask(NamedTuple):
    """A request for records."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: str | None = None


class Page(NamedTuple):
    """An answer: its JSON, None if it is to be skipped or empty, and its headers."""

    content: Any
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Asker:
    """Asks for the pages of one task; any thread may ask."""

    client: HttpClient
    login: Login
    retries: Retries
    processed: Statuses
    skipped: Statuses
    key: str
    """The setting that errors name."""
    stopping: StopToken
    at_once: AbstractContextManager[Any] = field(default_factory=nullcontext)
    """Bounds the requests that are on their way at the same time."""

    def page(self, ask: Ask) -> Page:
        """Ask until there is an answer. Errors: StoppedError; as for the module."""
        failures = 0
        while True:
            answer: HttpAnswer | None = None
            try:
                answer = self._answer(ask)
                if answer.status in self.processed:
                    return Page(self._json(ask, answer), answer.headers)
                if answer.status in self.skipped:
                    if answer.status in REDIRECTS:
                        what = "%s %s redirects (status %d), which only GET and HEAD follow: it brings no records"
                        log.warning(what, ask.method, masked(ask.url), answer.status)
                    return Page(None, answer.headers)
                message = f"{ask.method} {masked(ask.url)} answered {answer.status}: {excerpt(answer.body)}"
            except ServerUnavailable as error:
                message = f"{ask.method} {masked(ask.url)}: {error}"
            failures += 1
            self._raise_if_final(answer, failures, message)
            if self.stopping.wait(self.retries.pause_s(failures, answer)):
                raise StoppedError("the end was asked for while a server was away")

    def _raise_if_final(self, answer: HttpAnswer | None, failures: int, message: str) -> None:
        if answer is not None and is_login_refused(answer.status):
            raise LoginRefused(f"{message}. Check the login in the connector's settings.")
        may_pass = answer is None or is_passing(answer.status)
        if failures > self.retries.most or not (may_pass or (answer and answer.status in self.retries.statuses)):
            if not may_pass:
                raise AnswerRefused(f"{message}. Check {self.key}.")
            # The worker's own pause before the next poll knows nothing of the server's wish.
            self.stopping.wait(asked_pause_s(answer) or 0.0)
            raise RetriableError(message)

    def _answer(self, ask: Ask) -> HttpAnswer:
        login = self.login.headers(time.monotonic() + _TOKEN_S)
        answer = self._exchange(ask, login)
        if self.login.renewed(answer.status, login):
            answer = self._exchange(ask, self.login.headers(time.monotonic() + _TOKEN_S))
        return answer

    def _exchange(self, ask: Ask, login: Mapping[str, str]) -> HttpAnswer:
        headers = merged({"Accept": "application/json"}, ask.headers, login)
        with self.at_once:
            if ask.method in _GETS:
                return self.client.fetch(ask.url, key=self.key, headers=headers, method=ask.method)
            body = (ask.body or "").encode()
            return self.client.exchange(ask.method, ask.url, key=self.key, headers=headers, body=body)

    def _json(self, ask: Ask, answer: HttpAnswer) -> Any:
        if not answer.body.strip():
            return None
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            what = f"{ask.method} {masked(ask.url)} answered no JSON ({type(error).__name__})"
            raise RetriableError(f"{what}: {excerpt(answer.body)}") from None
