"""Bounds the bodies of requests, in bytes and in the time that they may take to come."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.rest.errors import error
from headrace.worker.errors import ConnectError

_SECONDS: Final = 60.0


class BoundedBodies:
    """Answers 413 to a body beyond the bound, whether it says its length or not, and 408 to one that does not end."""

    def __init__(self, app: ASGIApp, most_bytes: int, seconds: float = _SECONDS) -> None:
        self._app = app
        self._most = most_bytes
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "0")
        if length.isdigit() and int(length) > self._most:
            await error(413, self._too_long(), {"Connection": "close"})(scope, receive, send)
            return
        await self._app(scope, self._bounded(receive), send)

    def _bounded(self, receive: Receive) -> Receive:
        read, ended = 0, False
        deadline: float | None = None

        async def bounded() -> Message:
            nonlocal read, ended, deadline
            if ended:
                return await receive()
            if deadline is None:
                deadline = asyncio.get_running_loop().time() + self._seconds
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise ConnectError(f"The request body did not come within {self._seconds:g} seconds.", 408) from None
            read += len(message.get("body", b""))
            ended = not message.get("more_body", False)
            if read > self._most:
                raise ConnectError(self._too_long(), 413)
            return message

        return bounded

    def _too_long(self) -> str:
        return f"The request body has more than {self._most} bytes, the bound that rest.max.request.bytes sets."
