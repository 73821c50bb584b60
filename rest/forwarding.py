"""Forwards a request to the worker that decides it, and returns that worker's answer.

The query parameter `forward` counts the hops: absent in a client's request, `true` in the first hop, `false` in the
second, whose receiver does not forward it. Two hops reach the leader and through it the owner, else a rebalance is
running. The path is sent as received, so names with an encoded slash arrive. Of the headers only `Authorization` is
sent, and with it this worker's signed statements of the principal and the client's address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from headrace.rest.http import errors
from headrace.rest.http.requests import own_url
from headrace.rest.routes.unknown_settings import UNREAD_HEADER
from headrace.rest.security.forwarded import forwarded_target, who_asks
from headrace.worker.errors import ConnectError, Elsewhere

if TYPE_CHECKING:
    from headrace.worker.herder.rest_client import ForwardedAnswer, RestClient


def install(app: FastAPI, client: RestClient) -> None:
    """Forwards each request whose endpoint raises Elsewhere to the worker named by the error."""

    async def forward(request: Request, raised: Exception) -> Response:
        if not isinstance(raised, Elsewhere):
            raise raised
        asked = request.query_params.get("forward")
        if raised.url is None or (asked is not None and asked.lower() != "true"):
            return await errors.connect_error(request, raised)
        method, path = meant_request(request)
        target = forwarded_target(request, path, "true" if asked is None else "false")
        body = await meant_body(request)
        try:
            headers = who_asks(request, method, target)
            answer = await run_in_threadpool(client.forward, method, raised.url, target, body, headers)
        except ConnectError as refused:
            return await errors.connect_error(request, refused)
        return _passed_on(request, answer)

    app.add_exception_handler(Elsewhere, forward)


def meant_request(request: Request) -> tuple[str, str]:
    """The method and path to forward: as received, but for a request that only our workers know."""
    found: tuple[str, str] = getattr(request.state, "meant_request", (request.method, request.scope["path"]))
    return found


async def meant_body(request: Request) -> bytes:
    """The body to forward: as received, with hidden secrets restored."""
    meant: bytes | None = getattr(request.state, "meant_body", None)
    return await request.body() if meant is None else meant


def _passed_on(request: Request, answer: ForwardedAnswer) -> Response:
    headers = {name: value for name, value in answer.headers.items() if name == UNREAD_HEADER.lower()}
    # As in Connect a new connector's Location has the worker that was asked, not the one that created it.
    if path := answer.headers.get("location", "").partition("://")[2].partition("/")[2]:
        headers["Location"] = f"{own_url(request)}/{path}"
    return Response(answer.body, answer.status, headers, "application/json" if answer.body else None)
