"""`/connectors/{name}/logs`: the last log lines of a connector and its tasks, from all workers of the group.

Decided: they need `view_config`, as traces do, because both may quote the config; loses: with `view` alone one sees
that a task FAILED, not why.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response
from pydantic import ValidationError

from headrace.config.worker.rights import Right
from headrace.rest.http import documented
from headrace.rest.http.bodies import ConnectorLog, WrittenLine, json_answer
from headrace.rest.http.requests import HerderOf, MetricsOf, knows_connectors, number_of, speaks_json
from headrace.rest.routes.other_workers import Gathered, OthersOf
from headrace.rest.security.access import needs
from headrace.worker.logging.recent_lines import MOST_LINES, RECENT

router = APIRouter(
    tags=["connectors"],
    responses=documented.ERRORS,
    dependencies=[Depends(speaks_json), Depends(knows_connectors)],
)

_MOST: Final = 1_000
_Lines = Annotated[str, Query(description=f"The last lines of all workers, up to {_MOST}; each keeps {MOST_LINES}.")]


@router.get(
    "/connectors/{name:segment}/logs",
    dependencies=[needs(Right.VIEW_CONFIG)],
    responses=documented.answers("The last lines of its log.", ConnectorLog),
)
def connector_log(
    name: str, herder: HerderOf, metrics: MetricsOf, others: OthersOf, lines: _Lines = str(MOST_LINES)
) -> Response:
    most = number_of(lines, "lines", _MOST)
    herder.connector_info(name)
    own = [WrittenLine(worker=metrics.worker_id, **line._asdict()) for line in RECENT.of(name, most)]
    found, skipped = _together(own, others.answers())
    return json_answer(ConnectorLog(lines=sorted(found, key=lambda line: line.at)[-most:], skipped=dict(skipped)))


def _together(own: list[WrittenLine], gathered: Gathered) -> tuple[list[WrittenLine], Mapping[str, str]]:
    """Add the other workers' lines; returns the workers left out, too, each with the reason."""
    found, skipped = list(own), dict[str, Any](gathered.skipped)
    for url, answer in gathered.answers.items():
        try:
            found += ConnectorLog.model_validate(answer).lines
        except ValidationError as error:
            skipped[url] = f"Its answer cannot be used: {error.errors()[0]['msg']}"
    return found, skipped
