"""`/connectors` and all below it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from headrace.rest import answers, documented
from headrace.rest.masking import MaskingOf
from headrace.rest.requests import (
    ConfigBody,
    HerderOf,
    JsonObject,
    OffsetsBody,
    SignedRequest,
    accepts_json,
    config_of,
    own_url,
    task_configs_of,
    text_of,
)
from headrace.worker.errors import BadRequest, NotFound
from headrace.worker.herder.rest_client import connector_path
from headrace.worker.model import INITIAL_STATES, Config, ConnectorInfo, TargetState, TaskId

router = APIRouter(
    prefix="/connectors", tags=["connectors"], responses=documented.ERRORS, dependencies=[Depends(accepts_json)]
)

_MEMBERS = ("name", "config", "initial_state")

_INFO = documented.answers("The connector as it is configured.", documented.CONNECTOR_INFO)
_CREATED = documented.answers("The connector, just created.", documented.CONNECTOR_INFO, 201)
_TOLD = documented.answers("What became of it.", documented.MESSAGE)


@router.get("", responses=documented.answers("All names, or what was asked of each.", documented.CONNECTORS))
def list_connectors(herder: HerderOf, masking: MaskingOf, expand: documented.Expand) -> Response:
    names = herder.connectors()
    if not expand:
        return JSONResponse(names)
    shapes = {
        "status": lambda name: answers.connector_state(herder.connector_state(name)),
        "info": lambda name: answers.connector_info(herder.connector_info(name), masking),
    }
    found: dict[str, Any] = {}
    for name in names:
        try:
            found[name] = {expansion: shapes[expansion](name) for expansion in expand if expansion in shapes}
        except NotFound:
            continue  # it has no status yet, or has just gone
    return JSONResponse(found)


@router.post("", status_code=201, responses=_CREATED, openapi_extra=documented.body(documented.CREATION))
def create(request: Request, body: JsonObject, herder: HerderOf, masking: MaskingOf) -> Response:
    unknown = [key for key in body if key not in _MEMBERS]
    if unknown:
        known = ", ".join(_MEMBERS)
        raise BadRequest(f"Unrecognized field(s) {', '.join(unknown)}; a connector is created from {known}.")
    if body.get("config") is None:
        raise BadRequest('The member "config" is missing: give the connector\'s configuration.')
    name = (text_of(body.get("name")) or "").strip()
    config = _named(config_of(body["config"], 'The member "config"'), name)
    masking.refuse_hidden(config)
    info = herder.create(name, config, _initial(text_of(body.get("initial_state"))))
    return _created(request, info, masking)


@router.get("/{name:segment}", responses=_INFO)
def connector(name: str, herder: HerderOf, masking: MaskingOf) -> Response:
    return JSONResponse(answers.connector_info(herder.connector_info(name), masking))


@router.delete("/{name:segment}", status_code=204, response_description="It is done.")
def delete(name: str, herder: HerderOf) -> Response:
    herder.delete(name)
    return Response(status_code=204)


@router.get("/{name:segment}/config", responses=documented.answers("Its configuration.", documented.CONFIG))
def config(name: str, herder: HerderOf, masking: MaskingOf) -> Response:
    # Unless masked with its secrets, as in Connect: clients read a config, change it and put it back.
    return JSONResponse(masking.shown(herder.connector_info(name).config))


@router.put("/{name:segment}/config", responses=_INFO | _CREATED, openapi_extra=documented.body(documented.CONFIG))
def put_config(name: str, request: Request, body: ConfigBody, herder: HerderOf, masking: MaskingOf) -> Response:
    created, info = herder.configure(name, masking.meant(request, name, _named(body, name)))
    return _created(request, info, masking) if created else JSONResponse(answers.connector_info(info, masking))


@router.patch("/{name:segment}/config", responses=_INFO, openapi_extra=documented.body(documented.CONFIG))
def patch_config(name: str, request: Request, body: ConfigBody, herder: HerderOf, masking: MaskingOf) -> Response:
    if "name" in body:
        _named(body, name)
    return JSONResponse(answers.connector_info(herder.patch(name, masking.meant(request, name, body)), masking))


@router.get("/{name:segment}/status", responses=documented.answers("What it is doing.", documented.CONNECTOR_STATE))
def status(name: str, herder: HerderOf) -> Response:
    return JSONResponse(answers.connector_state(herder.connector_state(name)))


@router.get("/{name:segment}/tasks", responses=documented.answers("Its tasks.", documented.TASK_INFOS))
def tasks(name: str, herder: HerderOf, masking: MaskingOf) -> Response:
    found = herder.task_infos(name)
    plugin = herder.connector_info(name).config.get("connector.class") if masking.enabled else None
    return JSONResponse([answers.task_info(info, masking, plugin) for info in found])


@router.post(
    "/{name:segment}/tasks",
    status_code=204,
    response_description="It is done.",
    tags=["internal"],
    openapi_extra=documented.body(documented.TASK_CONFIGS),
)
def put_task_configs(name: str, request: SignedRequest, herder: HerderOf) -> Response:
    herder.put_task_configs(name, task_configs_of(request.body), request)
    return Response(status_code=204)


@router.put("/{name:segment}/fence", status_code=204, tags=["internal"], response_description="It is done.")
def fence_zombies(name: str, request: SignedRequest, herder: HerderOf) -> Response:
    herder.fence_zombies(name, request)
    return Response(status_code=204)


@router.get(
    "/{name:segment}/tasks/{task:number}/status",
    responses=documented.answers("What the task is doing.", documented.TASK_STATE),
)
def task_status(name: str, task: int, herder: HerderOf) -> Response:
    return JSONResponse(answers.task_state(task, herder.task_state(TaskId(name, task))))


@router.post("/{name:segment}/tasks/{task:number}/restart", status_code=204, response_description="It is done.")
def restart_task(name: str, task: int, herder: HerderOf) -> Response:
    herder.restart_task(TaskId(name, task))
    return Response(status_code=204)


@router.put("/{name:segment}/pause", status_code=202, response_class=Response, response_description="It is under way.")
def pause(name: str, herder: HerderOf) -> Response:
    herder.pause(name)
    return Response(status_code=202)


@router.put("/{name:segment}/resume", status_code=202, response_class=Response, response_description="It is under way.")
def resume(name: str, herder: HerderOf) -> Response:
    herder.resume(name)
    return Response(status_code=202)


@router.put("/{name:segment}/stop", status_code=204, response_description="It is done.")
def stop(name: str, herder: HerderOf) -> Response:
    herder.stop_connector(name)
    return Response(status_code=204)


@router.post(
    "/{name:segment}/restart",
    status_code=204,
    response_description="It is done.",
    responses=documented.answers("What it will be doing.", documented.CONNECTOR_STATE, 202),
)
def restart(
    name: str,
    herder: HerderOf,
    include_tasks: documented.IncludeTasks = False,
    only_failed: documented.OnlyFailed = False,
) -> Response:
    if not include_tasks and not only_failed:
        herder.restart(name)
        return Response(status_code=204)
    state = herder.restart_with(name, include_tasks=include_tasks, only_failed=only_failed)
    return JSONResponse(answers.connector_state(state), 202)


@router.get("/{name:segment}/topics", responses=documented.answers("The topics that it used.", documented.TOPICS))
def topics(name: str, herder: HerderOf) -> Response:
    return JSONResponse({name: {"topics": herder.topics(name)}})


@router.put(
    "/{name:segment}/topics/reset", status_code=202, response_class=Response, response_description="It is under way."
)
def reset_topics(name: str, herder: HerderOf) -> Response:
    herder.reset_topics(name)
    return Response(status_code=202)


@router.get("/{name:segment}/offsets", responses=documented.answers("How far it has read.", documented.OFFSETS))
def offsets(name: str, herder: HerderOf) -> Response:
    return JSONResponse(answers.offsets(herder.offsets(name)))


@router.patch("/{name:segment}/offsets", responses=_TOLD, openapi_extra=documented.body(documented.WANTED_OFFSETS))
def alter_offsets(name: str, body: OffsetsBody, herder: HerderOf) -> Response:
    return JSONResponse({"message": herder.alter_offsets(name, body)})


@router.delete("/{name:segment}/offsets", responses=_TOLD)
def reset_offsets(name: str, herder: HerderOf) -> Response:
    return JSONResponse({"message": herder.reset_offsets(name)})


def _named(config: Config, name: str) -> Config:
    """The config with the connector's name, which it may not contradict."""
    own = config.get("name")
    if own is not None and own != name:
        raise BadRequest(f"Connector name configuration ({own}) doesn't match connector name in the URL ({name})")
    return {"name": name, **{key: value for key, value in config.items() if key != "name"}}


def _initial(text: str | None) -> TargetState:
    try:
        return TargetState.STARTED if text is None else INITIAL_STATES[text.upper()]
    except KeyError:
        raise BadRequest(f"initial_state {text!r} is none of {', '.join(INITIAL_STATES)}.") from None


def _created(request: Request, info: ConnectorInfo, masking: MaskingOf) -> Response:
    location = f"{own_url(request)}{connector_path(info.name)}"
    return JSONResponse(answers.connector_info(info, masking), 201, {"Location": location})
