"""`/connectors/{name}/dead-letters`: a connector's dead letters, their causes, their replay and their end.

Decided: `view_config` shows the errors, as it shows the traces of failed tasks. Keys, values and headers are data, and
need `edit`, with which a connector can write them elsewhere; loses: who is on call sees no record without `edit`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from headrace.config.worker.rights import Right
from headrace.rest.http import documented
from headrace.rest.http.bodies import json_answer
from headrace.rest.http.letter_bodies import DeadLetterPage, FailureCauses, Removed, Replayed, WantedReplay
from headrace.rest.http.requests import HerderOf, JsonObject, knows_connectors, number_of, speaks_json, text_of
from headrace.rest.security.access import AccessOf, needs
from headrace.rest.security.audit import ChangeOf
from headrace.worker.deadletters.letter import Place
from headrace.worker.errors import BadRequest

router = APIRouter(
    prefix="/connectors/{name:segment}/dead-letters",
    tags=["connectors"],
    responses=documented.ERRORS,
    dependencies=[Depends(speaks_json), Depends(knows_connectors)],
)

_MOST: Final = 500
_MOST_LOOKED_AT: Final = 20_000
_OFFSETS: Final = re.compile(r"(\d{1,9}):(\d{1,18})")
_ALL: Final = "all"

_Limit = Annotated[str, Query(description=f"The most records, up to {_MOST}.")]
_Before = Annotated[str, Query(description="The `before` of the page with newer records.", examples=["0:120,1:97"])]
_Records = Annotated[str, Query(description=f"The newest records of each partition, up to {_MOST_LOOKED_AT}.")]
_Upto = Annotated[
    str, Query(description="The last offset to delete, by partition, or `all`.", examples=["0:120,1:97", "all"])
]


@router.get(
    "",
    dependencies=[needs(Right.VIEW_CONFIG)],
    responses=documented.answers("Its newest dead letters.", DeadLetterPage),
)
def page(name: str, herder: HerderOf, access: AccessOf, limit: _Limit = "50", before: _Before = "") -> Response:
    wanted = number_of(limit, "limit", _MOST)
    found = herder.dead_letters(name).page(wanted, _offsets(before, "before") if before else None)
    return json_answer(DeadLetterPage.of(found, access.may(Right.EDIT, name)))


@router.get(
    "/causes",
    dependencies=[needs(Right.VIEW_CONFIG)],
    responses=documented.answers("The causes of its newest dead letters.", FailureCauses),
)
def causes(name: str, herder: HerderOf, access: AccessOf, records: _Records = "1000") -> Response:
    found = herder.dead_letters(name).causes(number_of(records, "records", _MOST_LOOKED_AT))
    return json_answer(FailureCauses.of(found, access.may(Right.EDIT, name)))


@router.post(
    "/replay",
    dependencies=[needs(Right.EDIT)],
    responses=documented.answers("What was sent again.", Replayed),
    openapi_extra=documented.takes(WantedReplay),
)
def replay(name: str, body: JsonObject, herder: HerderOf, change: ChangeOf) -> Response:
    cause, places = _wanted(body)
    change.tells(**body)
    return json_answer(Replayed.of(herder.dead_letters_to_change(name).replay(cause, places)))


@router.delete(
    "",
    dependencies=[needs(Right.EDIT)],
    responses=documented.answers("What is left.", Removed),
)
def remove(name: str, herder: HerderOf, upto: _Upto = "") -> Response:
    if not upto:
        raise BadRequest(
            "upto is missing: give the last offset to delete by partition, such as upto=0:120, or upto=all"
        )
    wanted = None if upto == _ALL else _offsets(upto, "upto")
    return json_answer(Removed.of(herder.dead_letters_to_change(name).remove(wanted)))


def _wanted(body: dict[str, Any]) -> tuple[str | None, list[Place]]:
    """The cause and the places of a body. Errors: BadRequest."""
    if unknown := [key for key in body if key not in WantedReplay.model_fields]:
        raise BadRequest(f"Unrecognized field(s) {', '.join(unknown)}; the body has records, or cause, or neither.")
    cause, records = text_of(body.get("cause")), body.get("records")
    if cause is not None and records is not None:
        raise BadRequest("The body has records and cause; give one of them.")
    if records is None:
        return cause, []
    if not isinstance(records, list) or not 0 < len(records) <= _MOST:
        raise BadRequest(f'The member "records" must be an array of 1 to {_MOST} objects with partition and offset.')
    return None, [_place(one) for one in records]


def _place(given: Any) -> Place:
    if not isinstance(given, dict) or given.keys() != {"partition", "offset"}:
        raise BadRequest('Each of "records" is an object with partition and offset.')
    found = _OFFSETS.fullmatch(f"{given['partition']}:{given['offset']}")
    if found is None:
        raise BadRequest(f"partition {given['partition']!r} and offset {given['offset']!r} are no numbers.")
    return Place(int(found[1]), int(found[2]))


def _offsets(text: str, name: str) -> dict[int, int]:
    """Read an offset for each partition. Errors: BadRequest."""
    parts = [_OFFSETS.fullmatch(part) for part in text.split(",")]
    if not all(parts):
        raise BadRequest(f"{name}={text[:100]!r} is no list of partitions with their offsets, such as 0:120,1:97.")
    return {int(found[1]): int(found[2]) for found in parts if found is not None}
