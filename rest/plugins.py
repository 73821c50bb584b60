"""`/connector-plugins`: what is installed, what it can be told, and whether a config would do."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from fastapi.responses import JSONResponse, Response

from headrace.rest import answers, documented
from headrace.rest.masking import MaskingOf
from headrace.rest.requests import ConfigBody, HerderOf, accepts_json
from headrace.worker.errors import BadRequest, NotFound

router = APIRouter(
    prefix="/connector-plugins", tags=["plugins"], responses=documented.ERRORS, dependencies=[Depends(accepts_json)]
)


@router.get("", responses=documented.answers("What is installed.", documented.PLUGINS))
def plugins(herder: HerderOf, connectors_only: documented.ConnectorsOnly = True) -> Response:
    return JSONResponse([answers.plugin_info(info) for info in herder.plugins.infos(connectors_only)])


@router.get(
    "/{plugin:segment}/config", responses=documented.answers("What it can be told.", documented.PLUGIN_SETTINGS)
)
def settings(plugin: str, herder: HerderOf) -> Response:
    return JSONResponse(herder.plugins.settings(plugin))


@router.put(
    "/{plugin:segment}/config/validate",
    responses=documented.answers("What is to be said about the config.", documented.VALIDATION),
    openapi_extra=documented.body(documented.CONFIG),
)
def validate(plugin: str, body: ConfigBody, herder: HerderOf, masking: MaskingOf) -> Response:
    included = body.get("connector.class")
    if included is not None and not _short(included).endswith(_short(plugin)):
        raise BadRequest(f"Included connector type {included} does not match request type {plugin}")
    if herder.plugins.kind(plugin) is None:
        raise NotFound(f"Unknown plugin {plugin}.")
    return JSONResponse(masking.validated(herder.plugins.validate(body).infos(), plugin))


def _short(plugin: str) -> str:
    return plugin.removesuffix("Connector") or plugin
