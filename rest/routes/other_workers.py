"""Asks the other workers of the group what was asked here, so that any worker answers for all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

from fastapi import Depends, Request

from headrace.rest.http.requests import HerderOf
from headrace.rest.security.forwarded import forwarded_target, who_asks
from headrace.worker.errors import ConnectError

if TYPE_CHECKING:
    from headrace.worker.herder.api import Herder
    from headrace.worker.herder.rest_client import RestClient

_ANSWER_S: Final = 3.0
_AT_ONCE: Final = 16
_GROUP: Final = "the group"


class Gathered(NamedTuple):
    """The other workers' answers."""

    answers: Mapping[str, Any]
    """Each worker's JSON, by its URL."""
    skipped: Mapping[str, str]
    """The workers that did not answer, each with the reason; Java workers are among them."""


@dataclass(frozen=True)
class OtherWorkers:
    """The other workers, for one request."""

    request: Request
    herder: Herder
    client: RestClient | None

    def answers(self) -> Gathered:
        """Send them the request, which each checks and answers for itself; none if another worker sent it here."""
        if self.client is None or "forward" in self.request.query_params:
            return Gathered({}, {})
        try:
            urls = self.herder.other_workers()
            return self._gathered(self.client, urls) if urls else Gathered({}, {})
        except ConnectError as error:
            return Gathered({}, {_GROUP: error.message})

    def _gathered(self, client: RestClient, urls: Sequence[str]) -> Gathered:
        """Ask these workers at once. Errors: ConnectError if they could not be told who asks."""
        target = forwarded_target(self.request, self.request.scope["path"], "false")
        headers = who_asks(self.request, self.request.method, target)
        answers: dict[str, Any] = {}
        skipped: dict[str, str] = {}

        def ask(url: str) -> None:
            try:
                answer = client.forward("GET", url, target, headers=headers, answer_seconds=_ANSWER_S)
                answers[url] = json.loads(answer.body)
            except ConnectError as error:
                java = "It answers 404, as Java workers do: " if error.status == 404 else ""
                skipped[url] = f"{java}{error.message}"
            except ValueError as error:
                skipped[url] = f"Its answer is not JSON: {error}"

        with ThreadPoolExecutor(min(_AT_ONCE, len(urls)), "other-workers") as pool:
            list(pool.map(ask, urls))
        return Gathered(answers, skipped)


async def _others(request: Request, herder: HerderOf) -> OtherWorkers:
    return OtherWorkers(request, herder, request.app.state.client)


OthersOf = Annotated[OtherWorkers, Depends(_others)]
"""The other workers of the group."""
