"""Calls the REST API of other workers: forwards requests, and posts task configs to the leader."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import httpx

from headrace.config.problems import ConfigError
from headrace.config.tls import RenewedContext
from headrace.config.worker.rest_tls import workers_tls
from headrace.plugins.errors import causes
from headrace.worker.errors import ConnectError
from headrace.worker.herder.rest_paths import connector_path
from headrace.worker.model import Config
from headrace.worker.storage.signing import SessionKey

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 95.0
"""Exceeds the 90 s after which the other worker answers that the request timed out."""

_HEADERS: Final = {"Accept": "application/json", "User-Agent": "kafka-connect"}
_PREFIXED: Final = "or those under listeners.https. where there are any"
_UNTRUSTED: Final = f"put the certificate of its authority into ssl.truststore.location, {_PREFIXED}"
_WRONG_HOST: Final = (
    "give it a certificate for the host that it is advertised under, or have it advertise a host that its certificate "
    "names (rest.advertised.host.name)"
)
_REMEDIES: Final = {
    9: "look at the clocks of both machines",
    10: "renew it, its worker takes the new one without a restart",
    62: _WRONG_HOST,
    64: _WRONG_HOST,
}
"""Remedies by OpenSSL's codes: not yet valid, expired, wrong host name, wrong address."""


@dataclass(frozen=True)
class ForwardedAnswer:
    """Another worker's successful answer: status below 300, body unchanged."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class RestClient:
    """Calls other workers over kept connections. Any thread may call it."""

    def __init__(
        self,
        signature_algorithm: str = "HmacSHA256",
        answer_seconds: float = _ANSWER_SECONDS,
        under: str = "",
        tls: RenewedContext | None = None,
    ) -> None:
        """`under`: path prefix of other workers' REST, such as `/A/B` for a MirrorMaker flow.

        `tls`: certificates to show and to trust with https; by default the system's are trusted.
        """
        self._algorithm = signature_algorithm
        self._under = under
        self._http = httpx.Client(
            headers=_HEADERS,
            timeout=httpx.Timeout(answer_seconds, connect=_CONNECT_SECONDS),
            # One connection for each sending thread: no request waits for another.
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=10, keepalive_expiry=4),
            follow_redirects=False,
            trust_env=False,
            verify=(tls or workers_tls({})).delegate(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def forward(
        self,
        method: str,
        url: str,
        path_with_query: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        answer_seconds: float | None = None,
    ) -> ForwardedAnswer:
        """Send a request to the worker at `url`; path and query are sent unchanged, with their percent-encoding.

        `answer_seconds`: the longest wait, if it is not the client's.

        Errors: ConnectError with the other worker's status and message, or 500 if its answer is not one of Connect's.
        """
        sent = {**(headers or {}), **({"Content-Type": "application/json"} if body else {})}
        target = path_with_query.encode("latin-1")
        timeout = httpx.USE_CLIENT_DEFAULT if answer_seconds is None else httpx.Timeout(answer_seconds)
        try:
            # Without `target` httpx would encode the path again.
            answer = self._http.request(
                method, url, content=body, headers=sent, timeout=timeout, extensions={"target": target}
            )
        except httpx.HTTPError as error:
            text = f"{_tls_refusal(error) or error or type(error).__name__} ({method} {path_with_query} at {url})"
            raise ConnectError(f"IO Error trying to forward REST request: {text}") from None
        except (httpx.InvalidURL, ConfigError, ValueError) as error:
            raise ConnectError(f"Error trying to forward REST request: {error}") from error
        if answer.status_code >= 400:
            raise _refusal(answer)
        if not 200 <= answer.status_code < 300:
            raise ConnectError(f"Unexpected status code when handling forwarded request: {answer.status_code}")
        content = b"" if answer.status_code == 204 else answer.content
        return ForwardedAnswer(answer.status_code, dict(answer.headers), content)

    def post_tasks(self, leader_url: str, connector: str, configs: Sequence[Config], key: SessionKey | None) -> None:
        """Send a connector's task configs to the leader; unsigned without a key.

        Errors: as `forward`. 403 may come for a minute after the key was replaced: retry with the new key.
        """
        body = json.dumps([dict(config) for config in configs], ensure_ascii=False, separators=(",", ":")).encode()
        target = f"{self._under}{connector_path(connector)}/tasks"
        headers = key.sign(body, self._algorithm) | key.sign_head("POST", target) if key is not None else {}
        self.forward("POST", leader_url, target, body, headers)

    def fence(self, leader_url: str, connector: str, key: SessionKey | None) -> None:
        """Ask the leader to fence the connector's former tasks; unsigned without a key. Errors: as `post_tasks`."""
        headers = key.sign(b"", self._algorithm) if key is not None else {}
        self.forward("PUT", leader_url, f"{self._under}{connector_path(connector)}/fence", headers=headers)


def _tls_refusal(error: BaseException) -> str | None:
    """Return why TLS with the other worker failed, and the remedy; None if the error is not of TLS."""
    cause = next((one for one in causes(error, contexts=True) if isinstance(one, ssl.SSLError)), None)
    if cause is None:
        return None
    if isinstance(cause, ssl.SSLCertVerificationError):
        remedy = _REMEDIES.get(cause.verify_code, _UNTRUSTED)
        return f"the other worker's certificate is not accepted: {cause.verify_message.rstrip('.')}; {remedy}"
    reason = (cause.reason or str(cause)).replace("_", " ").lower()
    if "alert" in reason and ("certificate" in reason or "unknown ca" in reason):
        return (
            f"the other worker does not accept this worker's certificate: {reason}; look at ssl.keystore.location here "
            f"and at ssl.truststore.location there, {_PREFIXED}"
        )
    return f"TLS with the other worker failed: {reason}; has it https there?"


def _refusal(answer: httpx.Response) -> ConnectError:
    try:
        said: Any = answer.json()
        return ConnectError(str(said["message"] or ""), answer.status_code)
    except (ValueError, KeyError, TypeError):
        return ConnectError(
            "IO Error trying to forward REST request: "
            f"{answer.url.scheme}://{answer.url.netloc.decode()} answered with status {answer.status_code} and no "
            "error message; is it a Connect worker?"
        )
