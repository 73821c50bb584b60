"""`/connector-plugins`: what is installed, what it can be told, and whether a config would do."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from headrace.rest import answers
from headrace.rest.requests import ConfigBody, HerderOf, flag
from headrace.worker.herder import BadRequest, NotFound

router = APIRouter(prefix="/connector-plugins")


@router.get("")
def plugins(request: Request, herder: HerderOf) -> Response:
    found = herder.plugins.infos(flag(request, "connectorsOnly", default=True))
    return JSONResponse([answers.plugin_info(info) for info in found])


@router.get("/{plugin:segment}/config")
def settings(plugin: str, herder: HerderOf) -> Response:
    return JSONResponse(herder.plugins.settings(plugin))


@router.put("/{plugin:segment}/config/validate")
def validate(plugin: str, body: ConfigBody, herder: HerderOf) -> Response:
    included = body.get("connector.class")
    if included is not None and not _short(included).endswith(_short(plugin)):
        raise BadRequest(f"Included connector type {included} does not match request type {plugin}")
    if herder.plugins.kind(plugin) is None:
        raise NotFound(f"Unknown plugin {plugin}.")
    return JSONResponse(herder.plugins.validate(body).infos())


def _short(plugin: str) -> str:
    return plugin.removesuffix("Connector") or plugin
