"""The layer that finds the principal of each request, and answers 401 without one.

No login is needed for requests between workers, whose signature the endpoint checks; for `rest.login.open.paths`; and
for browsers' preflights, which the CORS layer answers before.

Decided: a 401 is Connect's error with Apache's sentence as its message, though Apache sends the bare sentence as
application/json, because clients that parse JSON can read it, and a Java worker that forwards returns it as 401;
loses: clients that compare the whole body.
Decided: unknown paths and /admin listeners need the login, too, unlike Apache's extension, because log levels and
draining are for operators; loses: nothing that a client needs.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.rest.http.errors import error
from headrace.rest.http.layers import SAFE_METHODS
from headrace.rest.security.authenticators import Authenticators
from headrace.rest.security.forwarded import FindKey, forwarded_principal
from headrace.rest.security.principal import (
    ANONYMOUS,
    Principal,
    certificate_of,
    principal_of,
    set_forwarded,
    set_principal,
)
from headrace.rest.security.refusals import NO_ACCESS, Unchecked, WrongLogin

log = logging.getLogger(__name__)

PAGES: Final = "/console"
"""The root of the pages for persons. It needs no login, because it only leads to a page below; browsers send a password
to the folder of the path that asked for it, which shall be this one, not all of the worker."""

_INTERNAL: Final = {
    # Also below a MirrorMaker flow.
    "POST": re.compile(r"(?:/[^/]+/[^/]+)?/connectors/[^/]+/tasks"),
    "PUT": re.compile(r"(?:/[^/]+/[^/]+)?/connectors/[^/]+/fence"),
}
_TOLD: Final = 10
_TOLD_WITHIN_S: Final = 60.0


def is_internal(scope: Scope) -> bool:
    """True for a request from another worker, which its endpoint accepts only by signature."""
    pattern = _INTERNAL.get(scope["method"])
    return pattern is not None and pattern.fullmatch(_path(scope)) is not None


class LoginLayer:
    """Sets the principal of a request, or refuses the request."""

    def __init__(self, app: ASGIApp, authenticators: Authenticators, find_key: FindKey) -> None:
        self._app = app
        self._authenticators = authenticators
        self._find_key = find_key
        self._failures = FailedLogins()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not (is_internal(scope) or self._is_open(scope)):
            try:
                principal = await self._principal(scope)
            except WrongLogin as refused:
                self._failures.tell(scope, str(refused))
                await self._refuse(401, NO_ACCESS, {}, scope, receive, send)
                return
            except Unchecked as unchecked:
                self._failures.tell(scope, str(unchecked))
                after = {"Retry-After": str(unchecked.retry_after_s)} if unchecked.status != 403 else {}
                await self._refuse(unchecked.status, str(unchecked), after, scope, receive, send)
                return
            set_principal(scope, principal)
        await self._app(scope, receive, send)

    async def _principal(self, scope: Scope) -> Principal:
        known = principal_of(scope)
        if known != ANONYMOUS:  # set by a REST extension
            return known
        authorization = Headers(scope=scope).get("authorization")
        try:
            said = forwarded_principal(scope, self._find_key)
        except Unchecked:
            if authorization is None:
                raise
            said = None
        if said is not None:
            set_forwarded(scope)
            return said
        client = scope["client"][0] if scope.get("client") else "-"
        found = await self._authenticators.principal(authorization, certificate_of(scope), client)
        if found is None:
            raise WrongLogin("")
        return found

    def _is_open(self, scope: Scope) -> bool:
        return scope["method"] in SAFE_METHODS and _path(scope) in {*self._authenticators.open_paths, PAGES}

    async def _refuse(
        self, status: int, message: str, headers: dict[str, str], scope: Scope, receive: Receive, send: Send
    ) -> None:
        to_person = _path(scope).startswith(f"{PAGES}/")
        if status == 401 and (challenge := self._authenticators.challenge(to_person)) is not None:
            headers["WWW-Authenticate"] = challenge
        if scope["method"] not in SAFE_METHODS:
            headers["Connection"] = "close"  # its body is not read
        await error(status, message, headers)(scope, receive, send)


class FailedLogins:
    """Logs failed logins: ten a minute, and the number of others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._since = float("-inf")
        self._told = self._more = 0

    def tell(self, scope: Scope, why: str) -> None:
        """Logs a failure, unless ten were logged within the minute; without any login, at DEBUG only."""
        client = scope["client"][0] if scope.get("client") else "-"
        if not why:
            log.debug("%s %s from %s came without login", scope["method"], _path(scope), client)
            return
        with self._lock:
            more = 0
            if self._clock() - self._since > _TOLD_WITHIN_S:
                self._since, self._told, more, self._more = self._clock(), 0, self._more, 0
            self._told += 1
            if self._told > _TOLD:
                self._more += 1
                return
        log.warning(
            "A login failed, from %s for %s %s: %s%s",
            *(client, scope["method"], _path(scope), why),
            f" ({more:,} more failed before)" if more else "",
        )


def _path(scope: Scope) -> str:
    """The path as routed."""
    raw = scope.get("raw_path") or scope["path"].encode()
    return raw.partition(b"?")[0].decode("latin-1").rstrip("/") or "/"
