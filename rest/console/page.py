"""Makes the pages: templates, headers, and the refusal of forms that another site's page sends."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import parse_qsl, quote

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool

from headrace.config.worker.rights import Right
from headrace.rest.console.endpoints import Answer, Endpoints, EndpointsOf
from headrace.rest.console.plots import bar, plots, short
from headrace.rest.console.stages import stepped
from headrace.rest.console.troubles import worker_of
from headrace.rest.http.guard import is_foreign
from headrace.rest.http.layers import SAFE_METHODS
from headrace.rest.security.access import AccessOf
from headrace.rest.security.login import PAGES
from headrace.rest.security.principal import ANONYMOUS
from headrace.rest.security.rights import Access
from headrace.worker.errors import BadRequest, ConnectError, Forbidden
from headrace.worker.herder.rest_paths import connector_path

if TYPE_CHECKING:
    from jinja2 import Environment

ROOT: Final = PAGES
OVERVIEW: Final = f"{ROOT}/overview"
_HERE: Final = Path(__file__).parent
_MOST_FIELDS: Final = 5000
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer the origin of forms would be null
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""The headers of everything below /console."""
DONE: Final = {
    "created": "It is created.",
    "saved": "The config is saved; the connector starts anew with it.",
    "unchanged": "Nothing was changed.",
    "paused": "It is being paused.",
    "resumed": "It is being resumed.",
    "stopped": "It is stopped.",
    "restarted": "It is being restarted.",
    "deleted": "It is deleted.",
    "offsets": "The offsets are changed.",
    "topics": "The list of topics begins anew.",
    "drained": "This worker is being drained: its work goes to the others until it restarts.",
    "level": "The log level is set.",
    "rolled-back": "The config of that revision is set; the connector starts anew with it.",
    "replayed": "The records are on their way to the topics that they came from.",
    "replayed-in-part": "Many records are on their way to where they came from. There are more: replay again.",
    "dead-letters-deleted": "The dead letters are deleted.",
    "dead-letters-deleted-in-part": "Many dead letters are deleted. There are more: delete again.",
}
"""Sentences that a page may begin with, by their name in the query: no text of a link gets onto a page."""


@dataclass(frozen=True)
class Console:
    """The parts that each page is made of: its request, the user's rights, the endpoints as the user may call them."""

    request: Request
    access: Access
    endpoints: Endpoints

    async def page(self, template: str, status: int = 200, **values: Any) -> Response:
        """Renders a page, off the event loop."""
        done = DONE.get(self.request.query_params.get("done", ""))
        values = {"console": self, "done": done, "problem": "", **values}
        text = await run_in_threadpool(lambda: _templates().get_template(template).render(values))
        return HTMLResponse(text, status, {**HEADERS, "Cache-Control": "no-store"})

    async def refused(self, answer: Answer, back: str = OVERVIEW) -> Response:
        """A page with an endpoint's refusal."""
        return await self.page(
            "refused.html", answer.status, title=_phrase(answer.status), message=answer.message, back=back
        )

    def may(self, right: str, connector: str) -> bool:
        """True if the user has the right for this connector."""
        return self.access.may(Right(right), connector)

    def may_any(self, right: str) -> bool:
        """True if the user has the right for a connector, or for the worker."""
        return self.access.grants.may_any(Right(right))

    @property
    def user(self) -> str:
        """The user's name; empty without login."""
        return "" if self.access.principal == ANONYMOUS else self.access.principal.name

    def masked(self, config: Mapping[str, str | None]) -> dict[str, str | None]:
        """The config without its secrets, whatever `rest.mask.secrets` says."""
        found: dict[str, str | None] = self.request.app.state.masking.masked(config)
        return found

    async def other_workers(self) -> Sequence[str]:
        """The URLs of the other workers of the group; none if they cannot be asked for now."""
        try:
            return await run_in_threadpool(self.request.app.state.herder.other_workers)
        except ConnectError:
            return ()

    @property
    def leader(self) -> str | None:
        """The name of the worker that leads; None if there is none, or if it is not known."""
        group = self.request.app.state.metrics.group
        return None if group is None or group.leader_url is None else worker_of(group.leader_url)

    async def form(self) -> list[tuple[str, str]]:
        """The fields of the form that was sent, with plain line ends. Errors: BadRequest."""
        try:
            text = (await self.request.body()).decode()
            fields = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
        except ValueError as error:
            raise BadRequest(f"The form cannot be read: {error}") from error
        return [(name, value.replace("\r\n", "\n")) for name, value in fields]


class PageRoute(APIRoute):
    """Answers an error with a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except ConnectError as error:
                values = {"title": _phrase(error.status), "message": error.message, "back": OVERVIEW}
                text = _templates().get_template("refused.html").render({"done": None, "problem": "", **values})
                return HTMLResponse(text, error.status, {**HEADERS, "Cache-Control": "no-store"})

        return handle


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase


async def _console(request: Request, access: AccessOf, endpoints: EndpointsOf) -> Console:
    if request.method not in SAFE_METHODS:
        _refuse_foreign(request)
    return Console(request, access, endpoints)


ConsoleOf = Annotated[Console, Depends(_console)]
"""The parts of this request's page."""


def _refuse_foreign(request: Request) -> None:
    """Refuses a form of another site's page, even of an origin that `access.control.allow.origin` lets in.

    Browsers send a password, or a certificate, with every form to this host. Errors: Forbidden.
    """
    says = request.headers.get("origin") or request.headers.get("sec-fetch-site")
    if says is None or is_foreign(request.headers, request.headers.get("host", "")):
        raise Forbidden("Only a page of this console may send its forms; programs use the REST API.")


def page_of(connector: str, *more: str) -> str:
    """The path of a connector's page."""
    return ROOT + "/".join([connector_path(connector), *(quote(part, safe="") for part in more)])


def see(path: str, done: str) -> Response:
    """Sends the browser to a page that begins with this sentence of `DONE`."""
    return RedirectResponse(f"{path}?done={done}", 303, dict(HEADERS))


def static(name: str) -> Response | None:
    """A file of the console; None if there is none of this name."""
    found = _static().get(name)
    if found is None:
        return None
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    headers = {**HEADERS, "Cache-Control": "private, max-age=31536000, immutable"}
    return Response(found[0], 200, headers, kinds[name.rpartition(".")[2]])


def _url_of(name: str) -> str:
    """The path of a file, which is another one for other contents."""
    return f"{ROOT}/static/{name}?v={_static()[name][1]}"


@cache
def _static() -> Mapping[str, tuple[bytes, str]]:
    read = {file.name: file.read_bytes() for file in sorted(_HERE.joinpath("static").iterdir())}
    return {name: (content, hashlib.sha256(content).hexdigest()[:12]) for name, content in read.items()}


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # for those who open the console

    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"page_of": page_of, "url_of": _url_of, "root": ROOT, "overview": OVERVIEW}
    made.globals |= {"bar": bar, "plots": plots, "stepped": stepped}
    made.filters |= {"shown": _shown, "when": _when, "number": short}
    return made


def _shown(value: Any) -> str:
    """A value as text: JSON, unless it is text already."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _when(at: float | str | None) -> str:
    """An instant in UTC: milliseconds of the epoch, or a text that says it already; a dash for none."""
    if at is None or isinstance(at, str):
        return at or "–"
    return f"{datetime.fromtimestamp(at / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
