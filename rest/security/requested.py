"""Names the requester of each request, for the history of connectors."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, Request

from headrace.rest.security.forwarded import FindKey, forwarded_address
from headrace.rest.security.principal import principal_of
from headrace.worker.requester import Requester, set_requester


async def _name_requester(request: Request) -> None:
    find_key: FindKey = request.app.state.find_key
    client = request.client.host if request.client is not None else "-"
    address = forwarded_address(request.scope, find_key)
    if address is None:
        # Java's workers do not say whom they forward for.
        address = f"a worker at {client}" if "forward" in request.query_params else client
    set_requester(Requester(principal_of(request.scope).name, address))


NAMES_REQUESTER: Any = Depends(_name_requester)
"""For all routes: what they change is recorded with the principal and the address."""
