"""Sends requests with their retries; what an outage leaves unsent comes again, what was sent does not.

    Sent       the answer's status is 2xx
    Refused    another answer, after the retries that the settings ask for
    Away       no answer, or one of a busy or failing server, after all retries
    Late       no success, and no time for the retries that are left

Errors: ConfigError for a host that is not allowed or a certificate that is not trusted, LoginRefused for 401 and 407.

Decided: only 2xx is success; Aiven's connector takes a redirect for success, and loses what it sent; loses: nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headrace.connectors.http.attempts import excerpt, is_login_refused, is_passing
from headrace.connectors.http.login import Login, merged
from headrace.connectors.http.sink.options import SinkOptions
from headrace.connectors.http.sink.requests import Request
from headrace.plugins.errors import LoginRefused
from headrace.plugins.interop.http.client import (
    HttpAnswer,
    HttpClient,
    ServerUnavailable,
    UnsendableRequest,
    masked,
)
from headrace.plugins.stopping import StopToken

_TOKEN_S: Final = 60.0
"""The longest wait for a token."""


class Sent(NamedTuple):
    """A request that the server took."""

    answer: HttpAnswer


class Refused(NamedTuple):
    """A request that the server refuses."""

    message: str


class Away(NamedTuple):
    """A request that no server took; a later one may."""

    message: str


class Late(NamedTuple):
    """A request whose retries go on once its batch comes again."""

    failures: int
    """The attempts so far."""


Result = Sent | Refused | Away | Late


@dataclass
class Sender:
    """Sends the requests of one task, from any of its threads."""

    client: HttpClient
    login: Login
    options: SinkOptions
    stopping: StopToken
    until_s: float = math.inf
    """The time (monotonic clock) after which no request is tried again."""
    failed: Callable[[Request, str, HttpAnswer | None], None] = field(default=lambda *_: None)
    """Called after each attempt that failed."""

    def send(self, request: Request, failures: int = 0) -> Result:
        """Send one request until it succeeds, or the retries are used up; `failures` attempts were made before.

        Errors: StoppedError; as for the module.
        """
        retries = self.options.retries
        while True:
            self.stopping.raise_if_set("sending requests")
            answer: HttpAnswer | None = None
            try:
                answer = self._answer(request)
            except UnsendableRequest as error:
                self.failed(request, str(error), None)
                return Refused(str(error))
            except ServerUnavailable as error:
                message = f"{request.method} {masked(request.url)}: {error}"
            else:
                if 200 <= answer.status < 300:
                    return Sent(answer)
                message = f"{request.method} {masked(request.url)} answered {answer.status}: {excerpt(answer.body)}"
            failures += 1
            self.failed(request, message, answer)
            if answer is not None and is_login_refused(answer.status):
                raise LoginRefused(f"{message}. Check the login in the connector's settings.")
            if failures > retries.most or (answer is not None and answer.status not in retries.statuses):
                is_away = answer is None or is_passing(answer.status)
                tried = f"{message} ({failures} attempts)"
                return Away(tried) if is_away else Refused(tried)
            self.stopping.wait(retries.pause_s(failures, answer))
            if time.monotonic() > self.until_s and not self.stopping.is_set():
                return Late(failures)

    def _answer(self, request: Request) -> HttpAnswer:
        """Send it once; once more if its login was too old. Errors: as `HttpClient.exchange`."""
        login = self.login.headers(time.monotonic() + _TOKEN_S)
        answer = self._exchange(request, login)
        if self.login.renewed(answer.status, login):
            answer = self._exchange(request, self.login.headers(time.monotonic() + _TOKEN_S))
        return answer

    def _exchange(self, request: Request, login: Mapping[str, str]) -> HttpAnswer:
        headers = merged(self.options.headers, login)
        sent = {name: value for name, value in headers.items() if request.body is not None or not _is_of_body(name)}
        key = self.options.url_setting
        return self.client.exchange(request.method, request.url, key=key, headers=sent, body=request.body, may_cut=True)


def _is_of_body(name: str) -> bool:
    return name.lower() == "content-type"
