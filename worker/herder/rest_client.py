"""How a worker calls the REST API of another: what it hands on for a requester, and what it has to tell the leader."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from headrace.worker.errors import ConnectError
from headrace.worker.model import Config
from headrace.worker.signing import SessionKey

log = logging.getLogger(__name__)

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 95.0
"""More than the 90 s in which the other one answers that its time is up."""

_HEADERS: Final = {"Accept": "application/json", "User-Agent": "kafka-connect"}
_SEGMENT_SAFE: Final = "!$&'()*+,;=:@"


@dataclass(frozen=True)
class Answer:
    """What another worker answered: a status below 300, its body as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class RestClient:
    """Calls other workers, from any thread; a connection that was opened once is used again."""

    def __init__(self, signature_algorithm: str = "HmacSHA256", answer_seconds: float = _ANSWER_SECONDS) -> None:
        self._algorithm = signature_algorithm
        self._http = httpx.Client(
            headers=_HEADERS,
            timeout=httpx.Timeout(answer_seconds, connect=_CONNECT_SECONDS),
            # As many requests go out at once as there are threads to send them: none waits for another's connection.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=10, keepalive_expiry=4),
            follow_redirects=False,
            trust_env=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """No connection is open any more."""
        self._http.close()

    def forward(
        self, method: str, url: str, path_with_query: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        """What the worker at `url` answers; path and query go out as they are, percent-encoding and all.

        Errors: ConnectError with the status and the message that the other answered, or 500 where it gave no answer
        that Connect gives.
        """
        sent = {**(headers or {}), **({"Content-Type": "application/json"} if body else {})}
        target = path_with_query.encode("latin-1")
        try:
            # Any other way httpx would encode the path anew.
            answer = self._http.request(method, url, content=body, headers=sent, extensions={"target": target})
        except httpx.HTTPError as error:
            log.warning("%s %s at %s had no answer: %r", method, path_with_query, url, error)
            raise ConnectError(f"IO Error trying to forward REST request: {error or type(error).__name__}") from error
        except (httpx.InvalidURL, ValueError) as error:
            raise ConnectError(f"Error trying to forward REST request: {error}") from error
        if answer.status_code >= 400:
            raise _refusal(answer)
        if not 200 <= answer.status_code < 300:
            raise ConnectError(f"Unexpected status code when handling forwarded request: {answer.status_code}")
        return Answer(answer.status_code, dict(answer.headers), b"" if answer.status_code == 204 else answer.content)

    def post_tasks(self, leader_url: str, connector: str, configs: Sequence[Config], key: SessionKey | None) -> None:
        """The leader knows which tasks the connector is to have; without a key the request goes out unsigned.

        Errors: as `forward`. 403 may come for a minute after the key was replaced: sign anew, with the key of then.
        """
        body = json.dumps([dict(config) for config in configs], ensure_ascii=False, separators=(",", ":")).encode()
        self._tell("POST", leader_url, connector, "tasks", body, key)

    def fence(self, leader_url: str, connector: str, key: SessionKey | None) -> None:
        """The leader has fenced every former task of this exactly-once source.

        Errors: as `post_tasks`.
        """
        self._tell("PUT", leader_url, connector, "fence", b"", key)

    def _tell(
        self, method: str, leader_url: str, connector: str, what: str, body: bytes, key: SessionKey | None
    ) -> None:
        path = f"{connector_path(connector)}/{what}"
        self.forward(method, leader_url, path, body, key.sign(body, self._algorithm) if key is not None else {})


def connector_path(name: str) -> str:
    """Where a connector is found below any worker's URL."""
    return f"/connectors/{quote(name, safe=_SEGMENT_SAFE)}"


def _refusal(answer: httpx.Response) -> ConnectError:
    """The other worker's ErrorMessage, as our own error."""
    try:
        said: Any = answer.json()
        return ConnectError(str(said["message"] or ""), answer.status_code)
    except (ValueError, KeyError, TypeError):
        return ConnectError(
            "IO Error trying to forward REST request: "
            f"{answer.url.scheme}://{answer.url.netloc.decode()} answered with status {answer.status_code} and no "
            "error message; is it a Connect worker?"
        )
