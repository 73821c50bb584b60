"""The principal and the address of a forwarded request, signed with the key that the workers of a cluster share.

`Authorization` is forwarded unchanged, and checked again. A certificate cannot be forwarded: the next worker sees that
of the forwarding worker. So a worker states the principal, and signs it with method, path, query and time. The key is
the session key, which is in the config topic, bound to a secret in the workers' properties (`PRINCIPAL_SECRET`), which
is not.

Decided: a Java worker forwards only `Authorization`. In a group with Java workers a principal by certificate is lost at
them, because they show their own certificate or none; loses: such groups need Basic authentication, or bearer tokens
that Java's extension accepts.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from headrace.config.values import Password
from headrace.config.worker.login_settings import PRINCIPAL_SECRET
from headrace.rest.security.principal import ANONYMOUS, Principal, principal_of
from headrace.rest.security.refusals import Unchecked
from headrace.worker.errors import ConnectError
from headrace.worker.requester import requester
from headrace.worker.storage.signing import HEAD_HEADER, SIGNATURE_HEADER, SessionKey

PRINCIPAL_HEADER: Final = "X-Headrace-Principal"
_SIGNATURE: Final = "X-Headrace-Principal-Signature"
_ADDRESS: Final = "X-Headrace-Address"
_ADDRESS_SIGNATURE: Final = "X-Headrace-Address-Signature"
_ALGORITHM: Final = "HmacSHA256"
_FRESH_MS: Final = 60_000
_LONGEST: Final = 64 << 10

FindKey = Callable[[], SessionKey | None]
"""Returns the worker's present session key; None while it has none."""


def bound(find: FindKey, secret: Password | None) -> FindKey:
    """Binds the lookup of the session key to this secret, if there is one, for signing principals."""

    def find_bound() -> SessionKey | None:
        key = find()
        return key if key is None or secret is None else key.bound_to(secret.value)

    return find_bound


def forwarded_target(request: Request, path: str, forward: str) -> str:
    """The path with the request's query, for another worker; `forward`: counts the hops (`forwarding.py`)."""
    given = request.scope["query_string"].decode("latin-1").split("&")
    kept = [part for part in given if part and part.partition("=")[0] != "forward"]
    return f"{path}?{'&'.join([*kept, f'forward={forward}'])}"


def who_asks(request: Request, method: str, target: str) -> dict[str, str]:
    """The headers that identify the requester to another worker.

    Errors: ConnectError if only a signature can do so, and there is no key to sign with yet.
    """
    headers = {"Authorization": value} if (value := request.headers.get("authorization")) else {}
    principal = principal_of(request.scope)
    find_key: FindKey = request.app.state.find_key
    if (who := requester()) is not None and (key := find_key()) is not None:
        headers |= address_headers(who.origin, method, target, key)
    if principal == ANONYMOUS or ("Authorization" in headers and find_key() is None):
        return headers
    return headers | headers_for(principal, method, target, key_to_sign(find_key))


def headers_for(principal: Principal, method: str, target: str, key: SessionKey) -> dict[str, str]:
    """Headers that state the principal to the next worker; `target`: the path and query as sent."""
    value = {"name": principal.name, "groups": sorted(principal.groups), "at": _now_ms()}
    said = base64.b64encode(json.dumps(value).encode()).decode()
    return {PRINCIPAL_HEADER: said, _SIGNATURE: _signature(method, target, said, key)}


def address_headers(address: str, method: str, target: str, key: SessionKey) -> dict[str, str]:
    """Headers that state the address of the first client to the next worker; for the history only, not for rights."""
    said = base64.b64encode(address.encode()).decode()
    return {
        _ADDRESS: said,
        _ADDRESS_SIGNATURE: key.sign(_of_address(method, target, said), _ALGORITHM)[SIGNATURE_HEADER],
    }


def forwarded_address(scope: Scope, find: FindKey) -> str | None:
    """The address stated by the forwarding worker; None without a statement that a worker signed."""
    headers, key = Headers(scope=scope), find()
    said, signature = headers.get(_ADDRESS), headers.get(_ADDRESS_SIGNATURE)
    if said is None or signature is None or key is None or len(said) > _LONGEST:
        return None
    if not key.signed(_of_address(scope["method"], _target(scope), said), _bytes(signature), _ALGORITHM):
        return None
    return base64.b64decode(said).decode()


def key_to_sign(find: FindKey) -> SessionKey:
    """The present key. Errors: ConnectError while there is none."""
    key = find()
    if key is None:
        raise ConnectError(
            "This worker has not read the cluster's session key from the config topic yet, and cannot tell the worker "
            "that decides who asks. Try again.",
            503,
        )
    return key


def forwarded_principal(scope: Scope, find: FindKey) -> Principal | None:
    """The principal stated by the forwarding worker; None without a statement.

    Errors: Unchecked if the statement cannot be trusted.
    """
    headers = Headers(scope=scope)
    said, signature = headers.get(PRINCIPAL_HEADER), headers.get(_SIGNATURE)
    if said is None or signature is None:
        return None
    key = find()
    if key is None:
        message = "This worker has not read the cluster's session key yet, with which forwarded requests are signed."
        raise Unchecked(503, f"{message} Try again.")
    target = _target(scope)
    if len(said) > _LONGEST or not key.signed(_bound(scope["method"], target, said), _bytes(signature), _ALGORITHM):
        why = f"is not signed by a worker of this cluster, all of which need the same {PRINCIPAL_SECRET} if one has it"
        raise Unchecked(403, f"The principal of this forwarded request {why}.")
    value: Any = json.loads(base64.b64decode(said))
    if abs(_now_ms() - value["at"]) > _FRESH_MS:
        raise Unchecked(
            403,
            "The principal of this forwarded request was signed more than a minute ago, or the clocks of the workers "
            "differ by as much: set them by NTP.",
        )
    return Principal(value["name"], frozenset(value["groups"]))


def is_from_worker(scope: Scope, find: FindKey) -> bool:
    """True if a worker of the cluster has signed the request's head."""
    key, said = find(), Headers(scope=scope).get(HEAD_HEADER)
    return key is not None and said is not None and key.signed_head(scope["method"], _target(scope), said)


def _target(scope: Scope) -> str:
    """The path and query as sent."""
    query = scope["query_string"].decode("latin-1")
    path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0].decode("latin-1")
    return f"{path}?{query}" if query else path


def _signature(method: str, target: str, said: str, key: SessionKey) -> str:
    return key.sign(_bound(method, target, said), _ALGORITHM)[SIGNATURE_HEADER]


def _bound(method: str, target: str, said: str) -> bytes:
    # No body of an internal request begins like this, so neither signature can pass for the other.
    return "\n".join(("headrace principal", method, target, said)).encode("latin-1", errors="replace")


def _of_address(method: str, target: str, said: str) -> bytes:
    return "\n".join(("headrace address", method, target, said)).encode("latin-1", errors="replace")


def _bytes(signature: str) -> bytes:
    try:
        return base64.b64decode(signature, validate=True)
    except ValueError:
        return b""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
