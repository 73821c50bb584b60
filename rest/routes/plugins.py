"""`/connector-plugins`: installed plugins, their settings, and the validation of configs."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from headrace.config.worker.rights import Right
from headrace.rest.http import documented
from headrace.rest.http.bodies import Config, ConfigInfos, ConfigKeyInfo, InstalledPlugin, json_answer
from headrace.rest.http.masking import MaskingOf
from headrace.rest.http.requests import ConfigBody, HerderOf, speaks_json
from headrace.rest.routes.unknown_settings import unknown_settings_header
from headrace.rest.security.access import NEEDS_NOTHING, AccessOf, Of, needs
from headrace.rest.security.rights import Access
from headrace.worker.errors import BadRequest, NotFound
from headrace.worker.model import Config as ConnectorConfig

router = APIRouter(
    prefix="/connector-plugins", tags=["plugins"], responses=documented.ERRORS, dependencies=[Depends(speaks_json)]
)


@router.get(
    "",
    dependencies=[NEEDS_NOTHING],
    responses=documented.answers("The installed plugins.", list[InstalledPlugin]),
)
def plugins(herder: HerderOf, connectors_only: documented.ConnectorsOnly = True) -> Response:
    return json_answer([InstalledPlugin.of(info) for info in herder.plugins.infos(connectors_only)])


@router.get(
    "/{plugin:segment}/config",
    dependencies=[NEEDS_NOTHING],
    responses=documented.answers("Its settings.", list[ConfigKeyInfo]),
)
def settings(plugin: str, herder: HerderOf, version: documented.Version = "latest") -> Response:
    return json_answer([ConfigKeyInfo(**setting) for setting in herder.plugins.settings(plugin, version)])


@router.put(
    "/{plugin:segment}/config/validate",
    dependencies=[needs(Right.EDIT, Of.ANY, changes=False)],
    responses=documented.answers("Each setting, and what is wrong with it.", ConfigInfos),
    openapi_extra=documented.takes(Config),
)
def validate(plugin: str, body: ConfigBody, herder: HerderOf, masking: MaskingOf, access: AccessOf) -> Response:
    check_config(plugin, body, access)
    if herder.plugins.kind(plugin) is None:
        raise NotFound(f"Unknown plugin {plugin}.")
    found = herder.plugins.validate(body)
    infos = masking.validated(ConfigInfos(**found.infos()), plugin)
    return json_answer(infos, headers=unknown_settings_header(found.unread))


def check_config(plugin: str, config: ConnectorConfig, access: Access) -> None:
    """Refuses a config of another plugin, or of a connector that the requester may not edit.

    Errors: BadRequest, Forbidden.
    """
    if (name := config.get("name")) is not None:
        access.require(Right.EDIT, name)
    included = config.get("connector.class")
    if included is not None and not _short(included).endswith(_short(plugin)):
        raise BadRequest(f"Included connector type {included} does not match request type {plugin}")


def _short(plugin: str) -> str:
    return plugin.removesuffix("Connector") or plugin
