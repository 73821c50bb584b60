"""Who a request comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from starlette.types import Scope

_PRINCIPAL: Final = "headrace.principal"
_CERTIFICATE: Final = "headrace.certificate"
_FORWARDED: Final = "headrace.forwarded"


@dataclass(frozen=True)
class Principal:
    """A user, the subject of a certificate or of a token, by name; `groups` are those that the login tells of."""

    name: str
    groups: frozenset[str] = field(default_factory=frozenset)


ANONYMOUS: Final = Principal("ANONYMOUS")
"""Who asks where no login is needed."""


def principal_of(scope: Scope) -> Principal:
    """Who asks; ANONYMOUS until a login has found out."""
    found: Principal = scope.setdefault("state", {}).get(_PRINCIPAL, ANONYMOUS)
    return found


def set_principal(scope: Scope, principal: Principal) -> None:
    """Say who asks."""
    scope.setdefault("state", {})[_PRINCIPAL] = principal


def is_forwarded(scope: Scope) -> bool:
    """Whether it is proven that another worker of the cluster passed this request on."""
    found: bool = scope.setdefault("state", {}).get(_FORWARDED, False)
    return found


def set_forwarded(scope: Scope) -> None:
    """Say that another worker has proven to have passed the request on."""
    scope.setdefault("state", {})[_FORWARDED] = True


def certificate_of(scope: Scope) -> str | None:
    """The distinguished name (RFC 2253) of the certificate that the client has shown on this connection."""
    found: str | None = scope.setdefault("state", {}).get(_CERTIFICATE)
    return found


def certificate_state(distinguished_name: str) -> dict[str, str]:
    """What a connection adds to the state of its requests, for `certificate_of`."""
    return {_CERTIFICATE: distinguished_name}
