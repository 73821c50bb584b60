"""Lint: what rules find in a connector's config, that of a connector or one that exists nowhere yet."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from headrace.config.worker.rights import Right
from headrace.rest.http import documented
from headrace.rest.http.bodies import Config, LintFindings, json_answer
from headrace.rest.http.requests import ConfigBody, HerderOf, knows_connectors, speaks_json
from headrace.rest.routes.plugins import check_config
from headrace.rest.security.access import AccessOf, Of, needs
from headrace.rest.security.rights import Access
from headrace.worker.herder.api import Herder

router = APIRouter(
    tags=["lint"], responses=documented.ERRORS, dependencies=[Depends(speaks_json), Depends(knows_connectors)]
)

_FINDINGS = documented.answers("What rules find, grave findings first.", LintFindings)


@router.get(
    "/connectors/{name:segment}/lint",
    dependencies=[needs(Right.VIEW_CONFIG)],
    responses=_FINDINGS,
)
def of_connector(name: str, herder: HerderOf, access: AccessOf) -> Response:
    info = herder.connector_info(name)
    return json_answer(LintFindings.of(herder.lint(info.config, _others(herder, access), len(info.tasks))))


@router.put(
    "/connector-plugins/{plugin:segment}/config/lint",
    dependencies=[needs(Right.EDIT, Of.ANY, changes=False)],
    responses=_FINDINGS,
    openapi_extra=documented.takes(Config),
)
def of_config(plugin: str, body: ConfigBody, herder: HerderOf, access: AccessOf) -> Response:
    check_config(plugin, body, access)
    return json_answer(LintFindings.of(herder.lint(body, _others(herder, access))))


def _others(herder: Herder, access: Access) -> list[str]:
    """The connectors that findings may tell of."""
    return [name for name in herder.connectors() if access.may(Right.VIEW_CONFIG, name)]
