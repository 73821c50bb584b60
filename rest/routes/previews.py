"""Previews: what a config would do to real records, of a connector that exists nowhere yet or of one that runs.

A preview reads with the worker's logins what the connector would read, so it needs the right to edit the connector.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Depends
from fastapi.requests import Request
from fastapi.responses import Response

from headrace.config.worker.rights import Right
from headrace.rest.http import documented
from headrace.rest.http.bodies import PreviewedConfig, json_answer
from headrace.rest.http.requests import HerderOf, PreviewBody, knows_connectors, number_of, speaks_json
from headrace.rest.routes.connectors import check_name
from headrace.rest.security.access import Of, needs
from headrace.rest.security.view_filter import ViewFilterOf
from headrace.worker.errors import BadRequest, NotFound
from headrace.worker.hosting.definition import patched
from headrace.worker.preview.model import DEFAULT_RECORDS, MOST_RECORDS, Preview, Wanted

router = APIRouter(
    tags=["previews"],
    responses=documented.ERRORS,
    dependencies=[Depends(speaks_json), Depends(knows_connectors)],
)

_PREVIEW: Final = documented.answers("The records, stage by stage, and what would be done outside.", Preview)
_TAKES: Final[dict[str, Any]] = documented.takes(PreviewedConfig)


@router.put(
    "/connector-plugins/{plugin:segment}/config/preview",
    dependencies=[needs(Right.EDIT, Of.ANY)],
    responses=_PREVIEW,
    openapi_extra=_TAKES,
)
def preview_config(
    plugin: str,
    body: PreviewBody,
    herder: HerderOf,
    view: ViewFilterOf,
    records: documented.Records = str(DEFAULT_RECORDS),
    begin: documented.From = "stored",
    diff: documented.Diff = False,
) -> Response:
    name = body.config.get("name")
    if not name:
        raise BadRequest("The config has no name: it tells whose stored offsets count.")
    view.access.require(Right.EDIT, name)
    if herder.plugins.kind(plugin) is None:
        raise NotFound(f"Unknown plugin {plugin}.")
    config = {"connector.class": plugin, **body.config}
    if herder.plugins.kind(config["connector.class"] or "") is None:
        raise NotFound(f"Unknown plugin {config['connector.class']}.")
    view.masking.refuse_hidden(config)
    before = herder.connector_info(name).config if diff else None
    return json_answer(herder.previews.preview(config, _wanted(records, begin, body.sample), before))


@router.post(
    "/connectors/{name:segment}/preview", dependencies=[needs(Right.EDIT)], responses=_PREVIEW, openapi_extra=_TAKES
)
def preview_connector(
    name: str,
    request: Request,
    body: PreviewBody,
    herder: HerderOf,
    view: ViewFilterOf,
    records: documented.Records = str(DEFAULT_RECORDS),
    begin: documented.From = "stored",
    diff: documented.Diff = False,
) -> Response:
    check_name(body.config.get("name", name), name)
    running = herder.connector_info(name).config
    config = patched(running, view.masking.meant(request, name, body.config))
    wanted = _wanted(records, begin, body.sample)
    return json_answer(herder.previews.preview(config, wanted, running if diff else None))


def _wanted(records: str, begin: str, sample: list[dict[str, Any]] | None) -> Wanted:
    if sample is not None and len(sample) > MOST_RECORDS:
        raise BadRequest(f"The sample has {len(sample)} records: a preview shows at most {MOST_RECORDS}.")
    return Wanted(number_of(records, "records", MOST_RECORDS), begin, sample)
