"""The principal of a request, kept in its ASGI scope."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from starlette.types import Scope

_PRINCIPAL: Final = "headrace.principal"
_CERTIFICATE: Final = "headrace.certificate"
_FORWARDED: Final = "headrace.forwarded"


@dataclass(frozen=True)
class Principal:
    """The name of a user, or of a certificate's or token's subject; `groups` come from the login."""

    name: str
    groups: frozenset[str] = field(default_factory=frozenset)


ANONYMOUS: Final = Principal("ANONYMOUS")
"""The principal of requests without login."""


def principal_of(scope: Scope) -> Principal:
    """The request's principal; ANONYMOUS until a login has set one."""
    found: Principal = scope.setdefault("state", {}).get(_PRINCIPAL, ANONYMOUS)
    return found


def set_principal(scope: Scope, principal: Principal) -> None:
    """Sets the request's principal."""
    scope.setdefault("state", {})[_PRINCIPAL] = principal


def is_forwarded(scope: Scope) -> bool:
    """True if another worker of the cluster has proven that it forwarded the request."""
    found: bool = scope.setdefault("state", {}).get(_FORWARDED, False)
    return found


def set_forwarded(scope: Scope) -> None:
    """Marks the request as provenly forwarded by another worker."""
    scope.setdefault("state", {})[_FORWARDED] = True


def certificate_of(scope: Scope) -> str | None:
    """The distinguished name (RFC 2253) of the client's certificate on this connection; None without one."""
    found: str | None = scope.setdefault("state", {}).get(_CERTIFICATE)
    return found


def certificate_state(distinguished_name: str) -> dict[str, str]:
    """The state that a connection adds to its requests, for `certificate_of`."""
    return {_CERTIFICATE: distinguished_name}
