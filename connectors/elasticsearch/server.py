"""Requests to a cluster of Elasticsearch or OpenSearch, whose nodes are tried in turn.

ServerUnavailable   no node answers
ServerBusy          a node answers that another attempt may succeed: 408, 429, 5xx
LoginRefused        401
ConfigError         a certificate that is not trusted; a server that is neither of the two
ServerError         any other answer that is no success; `Refused` if it is about the request's content
"""

from __future__ import annotations

import gzip
import json
import logging
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final
from urllib.parse import quote

from headrace.connectors.elasticsearch.access import Access, Aws, problem
from headrace.plugins.contracts import LoginRefused
from headrace.plugins.interop.http.client import HttpAnswer, HttpClient, ServerUnavailable, basic_header, retry_after_s

log = logging.getLogger(__name__)

JSON: Final = "application/json"
LINES: Final = "application/x-ndjson"
_LARGEST_BYTES: Final = 64 << 20
_AWAY: Final = (502, 503, 504)
"""Answers of a node without its cluster, or of a proxy without its node: another node may do better."""
_OLDEST: Final = {"elasticsearch": 7, "opensearch": 1}
_NEITHER: Final = "Set it to the HTTP address of Elasticsearch 8 or 9, or of OpenSearch 2 or 3."


class ServerBusy(Exception):
    """The same request may succeed later."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s
        """The pause that the server asks for."""


class ServerError(Exception):
    """The cluster does not do what it is asked, however often it is tried."""


class Refused(ServerError):
    """A request whose content the cluster does not take: 400, 413."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind
        """The type of the server's error, such as `resource_already_exists_exception`."""


class NotThere(ServerError):
    """A name that the cluster does not know: 404."""


class Server:
    """One cluster; any thread may ask."""

    def __init__(self, access: Access) -> None:
        """Connects to nothing yet. Errors: ConfigError."""
        self._access, self._current = access, 0
        self._client = HttpClient(
            access.allowed,
            connect_s=access.connect_s,
            read_s=access.read_s,
            context=access.context(),
            proxy=access.proxy,
            read_setting="read.timeout.ms",
            trust_setting=f"{access.tls_prefix}ssl.truststore.location",
            largest_bytes=_LARGEST_BYTES,
        )
        self._login = _login_header(access)
        self._is_checked = False

    @property
    def where(self) -> str:
        """The addresses, for errors."""
        return ", ".join(self._access.urls)

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def ask(self, method: str, path: str, body: bytes | None = None, kind: str = JSON) -> Any:
        """The answer's JSON. Errors: as for the module."""
        self.check()
        return self._understood(self._sent(method, path, body, kind), f"{method} {path.partition('?')[0]}")

    def check(self) -> None:
        """Looks once what is there. Errors: as for the module."""
        if self._is_checked:
            return
        answer = self._sent("GET", "/", None, JSON)
        if answer.status == 403:
            log.info("%s does not tell this login what it is; it is taken for the right server", self.where)
        else:
            is_another = answer.status < 400 or answer.status == 404  # a page, a redirect, a server without a root
            root = _json(answer.body) if is_another else self._understood(answer, "GET /")
            if (what := _unknown(answer.headers, root)) is not None:
                raise problem(self._access.urls, what, _NEITHER)
        self._is_checked = True

    def _sent(self, method: str, path: str, body: bytes | None, kind: str) -> HttpAnswer:
        failure: ServerUnavailable | None = None
        headers = {"Content-Type": kind, **self._login}
        if body is not None and self._access.compresses:
            body = gzip.compress(body, 1)
            headers["Content-Encoding"] = "gzip"
        for _ in self._access.urls:
            place = self._current
            url = self._access.urls[place] + path
            signed = headers if self._access.aws is None else self._signed(method, url, headers, body)
            try:
                answer = self._client.exchange(method, url, key="connection.url", headers=signed, body=body)
            except ServerUnavailable as error:
                failure = error
                self._leave(place)
            else:
                if answer.status in _AWAY:
                    self._leave(place)
                return answer
        raise ServerUnavailable(f"{self.where}: {failure}") from failure

    def _leave(self, place: int) -> None:
        """Have the next request go to the next node."""
        self._current = (place + 1) % len(self._access.urls)

    def _signed(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> dict[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        aws = self._access.aws
        assert aws is not None
        request = AWSRequest(method=method, url=url, data=body, headers=dict(headers))
        # Frozen, for another thread may renew the login between the reading of its key and of its secret.
        SigV4Auth(self._aws_login.get_frozen_credentials(), aws.service, aws.region).add_auth(request)
        return dict(request.headers.items())

    @cached_property
    def _aws_login(self) -> Any:
        """The login to AWS; the machine's own is looked for once, and renewed by itself."""
        assert self._access.aws is not None
        return _aws_login(self._access.aws)

    def _understood(self, answer: HttpAnswer, request: str) -> Any:
        found = _json(answer.body)
        if 200 <= answer.status < 300:
            if found is None and not request.startswith("HEAD"):
                raise ServerUnavailable(f"{self.where}: its answer to {request} is not JSON")
            return found
        kind, reason = _error(found)
        text = f"{self.where} answers {answer.status} to {request}" + (f": {kind}: {reason}" if kind else "")
        if answer.status in (408, 429) or answer.status >= 500:
            raise ServerBusy(text, retry_after_s(answer) or 0.0)
        if answer.status == 401:
            raise LoginRefused(f"{text}. Check connection.username and connection.password, or the API key")
        if answer.status == 404:
            raise NotThere(text)
        raise Refused(text, kind) if answer.status in (400, 413) else ServerError(text)


def path_of(*parts: str) -> str:
    """The path of these names."""
    return "".join("/" + quote(part, safe="-_.+,") for part in parts)


def _unknown(headers: Mapping[str, str], root: Any) -> str | None:
    """The reason that the server is not served; None if it is."""
    version = root.get("version") if isinstance(root, dict) else None
    number = str(version.get("number", "")) if isinstance(version, dict) else ""
    if isinstance(version, dict) and version.get("distribution") == "opensearch":
        product = "opensearch"
    elif headers.get("x-elastic-product") == "Elasticsearch":
        product = "elasticsearch"
    else:
        return "The server there is neither Elasticsearch nor OpenSearch."
    major = re.match(r"\d+", number)
    if major is None or int(major[0]) < _OLDEST[product]:
        return f"The server there is {product} {number}, which is too old."
    return None


def _login_header(access: Access) -> dict[str, str]:
    if access.api_key is not None:
        return {"Authorization": f"ApiKey {access.api_key}"}
    return {} if access.login is None else basic_header(":".join(access.login))


def _aws_login(aws: Aws) -> Any:
    """Errors: LoginRefused."""
    from botocore.credentials import Credentials
    from botocore.session import Session

    login = Credentials(aws.key, aws.secret) if aws.key else Session().get_credentials()
    if login is None:
        raise LoginRefused("aws.region is set, and there is no AWS login: set aws.access_key_id")
    return login


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _error(found: Any) -> tuple[str, str]:
    """The type and the reason of a failed request."""
    error = found.get("error") if isinstance(found, dict) else None
    if isinstance(error, dict):
        return str(error.get("type", "")), str(error.get("reason", ""))
    return ("error", str(error)) if error else ("", "")
