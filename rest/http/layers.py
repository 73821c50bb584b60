"""Layers around the routes: raw paths and HEAD, added headers, the access log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from email.utils import formatdate
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ACCESS_LOG: Final = logging.getLogger("org.apache.kafka.connect.runtime.rest.RestServer")
_log = logging.getLogger(__name__)

SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""


class RawPaths:
    """Routes by the undecoded path, so that `%2F` is part of a name; trailing slashes are cut, HEAD becomes GET."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path") or scope["path"].encode()
            path = raw.partition(b"?")[0].decode("latin-1").rstrip("/") or "/"
            # The server knows that the request was a HEAD, and drops the answer's body.
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            scope = {**scope, "path": path, "method": method}
        await self._app(scope, receive, send)


class AddedHeaders:
    """Adds the headers of `response.http.headers.config` to every answer."""

    def __init__(self, app: ASGIApp, rules: Sequence[str]) -> None:
        self._app = app
        self._rules = [_rule(rule) for rule in rules]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for apply in self._rules:
                    apply(headers)
            await send(message)

        await self._app(scope, receive, answer)


def _rule(rule: str) -> Callable[[MutableHeaders], None]:
    action, _, pair = rule.strip().partition(" ")
    name, _, value = (part.strip() for part in pair.partition(":"))
    # Dates are milliseconds from now, as in Jetty's HeaderFilter.
    after_s = int(value) / 1000 if action.endswith("Date") else None

    def apply(headers: MutableHeaders) -> None:
        text = value if after_s is None else formatdate(time.time() + after_s, usegmt=True)
        if action.startswith("set"):
            headers[name] = text
        else:
            headers.append(name, text)

    return apply


class AccessLog:
    """Logs a line per request in the extended NCSA format with its milliseconds; catches and logs every error.

    `which` requests are logged at INFO: `all`, `changes` (methods that may change something, and failed requests) or
    `none`; the others at DEBUG.
    """

    def __init__(self, app: ASGIApp, which: str = "all") -> None:
        self._app = app
        self._which = which

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        status, size = 500, 0

        async def answer(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except Exception:
            _log.exception("%s %s failed", scope["method"], scope["path"])
        finally:
            level = self._level(scope["method"], status)
            if ACCESS_LOG.isEnabledFor(level):
                ACCESS_LOG.log(level, "%s", _ncsa(scope, status, size, time.monotonic() - began))

    def _level(self, method: str, status: int) -> int:
        only_read = method in SAFE_METHODS and status < 400
        quiet = self._which == "none" or (self._which == "changes" and only_read)
        return logging.DEBUG if quiet else logging.INFO


def _ncsa(scope: Scope, status: int, size: int, seconds: float) -> str:
    headers = Headers(scope=scope)
    client = scope["client"][0] if scope.get("client") else "-"
    query = f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
    path = scope["raw_path"].decode("latin-1") if scope.get("raw_path") else scope["path"]
    request = f"{scope['method']} {path}{query} HTTP/{scope['http_version']}"
    moment = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime())
    referer, agent = headers.get("referer", "-"), headers.get("user-agent", "-")
    return f'{client} - - [{moment}] "{request}" {status} {size} "{referer}" "{agent}" {seconds * 1000:.0f}'
