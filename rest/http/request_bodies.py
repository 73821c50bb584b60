"""Limits request bodies: each in bytes and in time to arrive, and the sum of all in bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.rest.http.body_sum import BodySum
from headrace.rest.http.errors import error
from headrace.worker.errors import BadRequest, ConnectError

_SECONDS: Final = 60.0


class BoundedBodies:
    """Answers 413 to a body above the limit, 408 to one that does not end, and 503 if other bodies leave no room.

    Decided: the signature of a request between workers covers its body, so the body must be read before the signature
    can be checked. Such bodies have a small sum of their own, unless the head is signed, too, as Headrace workers do;
    loses: while somebody fills that sum, Java workers of the group have to try again.
    """

    def __init__(
        self,
        app: ASGIApp,
        most_bytes: int,
        seconds: float = _SECONDS,
        all_bodies: BodySum | None = None,
        is_known: Callable[[Scope], bool] = lambda scope: True,
    ) -> None:
        """`is_known`: true if a request's sender is known before its body is read."""
        self._app = app
        self._most = most_bytes
        self._seconds = seconds
        self._all = all_bodies or BodySum()
        self._is_known = is_known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "0")
        if length.isdigit() and int(length) > self._most:
            await error(413, self._too_long(), {"Connection": "close"})(scope, receive, send)
            return
        body = _Body(self, receive, self._is_known(scope))
        has_body = length != "0" or "transfer-encoding" in Headers(scope=scope)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and has_body and not body.ended:
                MutableHeaders(scope=message)["Connection"] = "close"  # the rest is not read
            await send(message)

        try:
            await self._app(scope, body.receive, answer)
        finally:
            body.release()

    def _too_long(self) -> str:
        return f"The request body has more than {self._most} bytes, the bound that rest.max.request.bytes sets."


class _Body:
    def __init__(self, bounds: BoundedBodies, receive: Receive, is_known: bool) -> None:
        self._bounds = bounds
        self._receive = receive
        self._is_known = is_known
        self._read = 0
        self.ended = False
        """True once the whole body has arrived."""
        self._deadline: float | None = None

    async def receive(self) -> Message:
        """Receives the next part of the body. Errors: ConnectError."""
        if self.ended:
            return await self._receive()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._bounds._seconds
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            text = f"The request body did not come within {self._bounds._seconds:g} seconds."
            raise ConnectError(text, 408) from None
        if message["type"] == "http.disconnect":
            raise BadRequest("The client left before all of the request body had come.")
        self._take(len(message.get("body", b"")))
        self.ended = not message.get("more_body", False)
        return message

    def _take(self, count: int) -> None:
        bounds = self._bounds
        if self._read + count > bounds._most:
            raise ConnectError(bounds._too_long(), 413)
        if not bounds._all.add(count, self._is_known, bounds._most):
            raise ConnectError(
                "The bodies of other requests take all the memory that there is for them. Try again.", 503
            )
        self._read += count

    def release(self) -> None:
        """Subtracts the body's bytes from the sum."""
        self._bounds._all.add(-self._read, self._is_known, self._bounds._most)
