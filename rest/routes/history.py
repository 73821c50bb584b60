"""`/connectors/{name}/history` and `/connectors/{name}/rollback`.

Decided: secrets are hidden even if `rest.mask.secrets` is off, because nobody needs a history to read the present
config; loses: a change of a secret shows as one from [hidden] to [hidden].
Decided: a rollback is forwarded as the PUT of the config that it means, because a Java worker may lead; loses: nothing.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from headrace.config.worker.rights import Right
from headrace.rest.http import documented
from headrace.rest.http.bodies import Difference, RecordedChange, WantedRevision, json_answer
from headrace.rest.http.differences import differences
from headrace.rest.http.requests import HerderOf, JsonObject, knows_connectors, speaks_json
from headrace.rest.routes.connectors import CREATED, INFO, configured
from headrace.rest.security.access import needs
from headrace.rest.security.audit import ChangeOf
from headrace.rest.security.view_filter import ViewFilter, ViewFilterOf
from headrace.worker.errors import BadRequest, NotFound
from headrace.worker.herder.api import Herder
from headrace.worker.model import INITIAL_STATES, Config
from headrace.worker.storage.history import Revision, Snapshot

router = APIRouter(
    prefix="/connectors/{name:segment}",
    tags=["history"],
    responses=documented.ERRORS,
    dependencies=[Depends(speaks_json), Depends(knows_connectors)],
)

_STATES: Final = {target: name for name, target in INITIAL_STATES.items()}
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


@router.get(
    "/history",
    dependencies=[needs(Right.VIEW_CONFIG)],
    responses=documented.answers("Its changes, the newest first.", list[RecordedChange]),
)
def history(name: str, herder: HerderOf, view: ViewFilterOf) -> Response:
    return json_answer(recorded_changes(name, herder, view))


@router.post(
    "/rollback",
    dependencies=[needs(Right.EDIT)],
    responses=INFO | CREATED,
    openapi_extra=documented.takes(WantedRevision),
)
def rollback(
    name: str, request: Request, body: JsonObject, herder: HerderOf, view: ViewFilterOf, change: ChangeOf
) -> Response:
    config = _config_of(name, _number(body), herder)
    request.state.meant_request = "PUT", request.scope["path"].removesuffix("/rollback") + "/config"
    request.state.meant_body = json.dumps(config).encode()
    change.configures(name, config)
    return configured(request, *herder.configure(name, config), view)


def recorded_changes(name: str, herder: Herder, view: ViewFilter) -> list[RecordedChange]:
    """The changes of a connector as the requester may see them, the newest first. Errors: Forbidden; NotFound."""
    return [_shown(one, view) for one in reversed(herder.revisions(name))]


def _shown(revision: Revision, view: ViewFilter) -> RecordedChange:
    who, after = revision.requester, revision.after
    members = {
        "revision": revision.number,
        "at": datetime.fromtimestamp(revision.at_ms / 1000, UTC).isoformat(timespec="milliseconds"),
        "by": None if who is None else who.by,
        "from": "another worker" if who is None else who.origin,
        "change": revision.change,
        "state": None if after is None else _STATES[after.target],
        "differences": _differences(revision, view),
    }
    return RecordedChange.model_validate(members)


def _differences(revision: Revision, view: ViewFilter) -> dict[str, Difference]:
    before, after = revision.before, revision.after
    if revision.change == "offsets":
        if not view.access.may(Right.OFFSETS, revision.connector):
            return {}
        return {
            json.dumps(move.partition, sort_keys=True): Difference(before=move.before, after=move.after)
            for move in revision.moves
        }
    if revision.change == "state" and before is not None and after is not None:
        return {"state": Difference(before=_STATES[before.target], after=_STATES[after.target])}
    found = differences(_config(before), _config(after), view.masking)
    return {key: Difference(before=was, after=now) for key, (was, now) in found.items()}


def _config(snapshot: Snapshot | None) -> Config:
    return {} if snapshot is None else snapshot.config


def _number(body: dict[str, Any]) -> int:
    text = body.get("revision")
    if list(body) != ["revision"] or not isinstance(text, str) or _NUMBER.fullmatch(text) is None:
        raise BadRequest('The body must be {"revision": n}, with a number that GET …/history shows.')
    return int(text)


def _config_of(name: str, number: int, herder: Herder) -> Config:
    found = next((one for one in herder.revisions(name) if one.number == number), None)
    if found is None:
        raise NotFound(f"The history of connector {name} has no revision {number}; GET …/history lists them.")
    if found.after is None:
        raise BadRequest(
            f"Revision {number} deleted connector {name} and has no config: name an earlier one, or delete it again."
        )
    return found.after.config
