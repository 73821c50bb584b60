"""The rights that routes need, declared at each route.

    @router.put("/{name:segment}/pause", dependencies=[needs(Right.OPERATE)])

FastAPI checks them before it reads the body; a route checks a name within its body itself. A route without a
declaration fails a test.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Annotated, Any, Final

from fastapi import Depends, Request

from headrace.config.worker.rights import Right
from headrace.rest.http.layers import SAFE_METHODS
from headrace.rest.security.audit import note_of
from headrace.rest.security.principal import principal_of
from headrace.rest.security.rights import Access, RightsFile


class Of(Enum):
    """The scope of a needed right."""

    NAMED = auto()
    """The path's connector."""
    ANY = auto()
    """Any connector, or the worker."""
    ALL = auto()


async def _access(request: Request) -> Access:
    rights: RightsFile | None = request.app.state.rights
    return Access.of(principal_of(request.scope), None if rights is None else rights.current())


AccessOf = Annotated[Access, Depends(_access)]
"""The requester's access."""


class Needs:
    """Refuses a request that lacks a right."""

    @staticmethod
    def declared_by(route: Any) -> Needs | None:
        """The right that a route declares; None if it declares none."""
        found = (one.dependency for one in getattr(route, "dependencies", ()))
        return next((one for one in found if isinstance(one, Needs)), None)

    def __init__(self, right: Right | None, of: Of, changes: bool) -> None:
        self.right = right
        self.of = of
        self._changes = changes

    async def __call__(self, request: Request, access: AccessOf) -> None:
        if self.right is None:
            return
        if self.of is Of.NAMED:
            access.require(self.right, request.path_params["name"])
        elif self.of is Of.ALL:
            access.require_all(self.right)
        else:
            access.require_any(self.right)
        note = note_of(request.scope)
        if note is not None and self._changes and request.method not in SAFE_METHODS:
            note.is_change = True


def needs(right: Right, of: Of = Of.NAMED, *, changes: bool = True) -> Any:
    """Declares the right that a route needs; `changes`: the audit log has a line for it unless it is a GET."""
    return Depends(Needs(right, Of.ANY if right is Right.ADMIN else of, changes))


async def _admin_unless_declared(request: Request, access: AccessOf) -> None:
    if Needs.declared_by(request.scope.get("route")) is None:
        await _ADMIN(request, access)


_ADMIN: Final = Needs(Right.ADMIN, Of.ANY, changes=True)

ADMIN_UNLESS_DECLARED: Any = Depends(_admin_unless_declared)
"""For all routes: those of REST extensions declare no right."""

NEEDS_NOTHING: Any = Depends(Needs(None, Of.ANY, changes=False))
"""For routes that are open, that show only what the requester may see, or that check a signature."""
