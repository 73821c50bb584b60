"""Answers errors as `{"error_code", "message"}`."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from headrace.rest.http.bodies import ErrorMessage, json_answer
from headrace.worker.errors import ConnectError
from headrace.worker.logging.redaction import hidden_of, log_text

log = logging.getLogger(__name__)

_LEVELS: Final = {404: logging.DEBUG, 409: logging.DEBUG, 503: logging.WARNING}
"""Log levels by status; 503 asks for a retry, such as during a start, and is no error of the worker."""


def install(app: FastAPI) -> None:
    """Makes the app answer every error in Connect's form; `app.state.routes` has all its routes."""
    app.add_exception_handler(ConnectError, connect_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)


def error(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """The answer to a failed request."""
    return json_answer(ErrorMessage(error_code=status, message=message), status, headers)


async def connect_error(request: Request, raised: Exception) -> Response:
    """The answer to a ConnectError."""
    if not isinstance(raised, ConnectError):
        raise raised
    level = _LEVELS.get(raised.status, logging.INFO if raised.status < 500 else logging.ERROR)
    message = hidden_of(raised, raised.message)
    text = log_text(raised) if raised.status >= 500 else message
    log.log(level, "%s %s answered with %d: %s", request.method, request.url.path, raised.status, text)
    return error(raised.status, message)


async def _http_error(request: Request, raised: Exception) -> Response:
    """The answer to a request that routing refuses, in Jersey's words."""
    status = raised.status_code if isinstance(raised, HTTPException) else 500
    headers = {"Allow": ",".join(_allowed(request))} if status == 405 else None
    if status == 405 and request.method == "OPTIONS":
        return Response(headers=headers)
    return error(status, f"HTTP {status} {HTTPStatus(status).phrase}", headers)


async def _unexpected(request: Request, raised: Exception) -> Response:
    # Invariant 6: its text may hold a secret, so the log has the text and the answer only the error's type.
    kind = type(raised).__name__
    return error(500, f"Internal error ({kind}) in {request.method} {request.url.path}; see the worker's log.")


def _allowed(request: Request) -> list[str]:
    methods = {"OPTIONS"}
    for route in request.app.state.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))
