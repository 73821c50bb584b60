"""`/connectors` and all below it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from headrace.rest import answers
from headrace.rest.requests import ConfigBody, HerderOf, JsonObject, config_of, flag, text_of
from headrace.worker.herder import BadRequest, Config, ConnectorInfo, NotFound, TargetState, TaskId

router = APIRouter(prefix="/connectors")

_INITIAL = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
_MEMBERS = ("name", "config", "initial_state")
_SEGMENT_SAFE = "!$&'()*+,;=:@"


@router.get("")
def list_connectors(request: Request, herder: HerderOf) -> Response:
    names = herder.connectors()
    expansions = request.query_params.getlist("expand")
    if not expansions:
        return JSONResponse(names)
    shapes = {
        "status": lambda name: answers.connector_state(herder.connector_state(name)),
        "info": lambda name: answers.connector_info(herder.connector_info(name)),
    }
    found: dict[str, Any] = {}
    for name in names:
        try:
            found[name] = {expansion: shapes[expansion](name) for expansion in expansions if expansion in shapes}
        except NotFound:
            continue  # it has no status yet, or has just gone
    return JSONResponse(found)


@router.post("")
def create(request: Request, body: JsonObject, herder: HerderOf) -> Response:
    unknown = [key for key in body if key not in _MEMBERS]
    if unknown:
        known = ", ".join(_MEMBERS)
        raise BadRequest(f"Unrecognized field(s) {', '.join(unknown)}; a connector is created from {known}.")
    if body.get("config") is None:
        raise BadRequest('The member "config" is missing: give the connector\'s configuration.')
    name = (text_of(body.get("name")) or "").strip()
    config = _named(config_of(body["config"], 'The member "config"'), name)
    info = herder.create(name, config, _initial(text_of(body.get("initial_state"))))
    return _created(request, info)


@router.get("/{name:segment}")
def connector(name: str, herder: HerderOf) -> Response:
    return JSONResponse(answers.connector_info(herder.connector_info(name)))


@router.delete("/{name:segment}")
def delete(name: str, herder: HerderOf) -> Response:
    herder.delete(name)
    return Response(status_code=204)


@router.get("/{name:segment}/config")
def config(name: str, herder: HerderOf) -> Response:
    # Secrets too, as in Connect: clients read a config, change it and put it back.
    return JSONResponse(dict(herder.connector_info(name).config))


@router.put("/{name:segment}/config")
def put_config(name: str, request: Request, body: ConfigBody, herder: HerderOf) -> Response:
    created, info = herder.configure(name, _named(body, name))
    return _created(request, info) if created else JSONResponse(answers.connector_info(info))


@router.patch("/{name:segment}/config")
def patch_config(name: str, body: ConfigBody, herder: HerderOf) -> Response:
    if "name" in body:
        _named(body, name)
    return JSONResponse(answers.connector_info(herder.patch(name, body)))


@router.get("/{name:segment}/status")
def status(name: str, herder: HerderOf) -> Response:
    return JSONResponse(answers.connector_state(herder.connector_state(name)))


@router.get("/{name:segment}/tasks")
def tasks(name: str, herder: HerderOf) -> Response:
    return JSONResponse([answers.task_info(info) for info in herder.task_infos(name)])


@router.get("/{name:segment}/tasks/{task:int}/status")
def task_status(name: str, task: int, herder: HerderOf) -> Response:
    return JSONResponse(answers.task_state(task, herder.task_state(TaskId(name, task))))


@router.post("/{name:segment}/tasks/{task:int}/restart")
def restart_task(name: str, task: int, herder: HerderOf) -> Response:
    herder.restart_task(TaskId(name, task))
    return Response(status_code=204)


@router.put("/{name:segment}/pause")
def pause(name: str, herder: HerderOf) -> Response:
    herder.pause(name)
    return Response(status_code=202)


@router.put("/{name:segment}/resume")
def resume(name: str, herder: HerderOf) -> Response:
    herder.resume(name)
    return Response(status_code=202)


@router.put("/{name:segment}/stop")
def stop(name: str, herder: HerderOf) -> Response:
    herder.stop_connector(name)
    return Response(status_code=204)


@router.post("/{name:segment}/restart")
def restart(name: str, request: Request, herder: HerderOf) -> Response:
    include_tasks, only_failed = flag(request, "includeTasks"), flag(request, "onlyFailed")
    if not include_tasks and not only_failed:
        herder.restart(name)
        return Response(status_code=204)
    state = herder.restart_with(name, include_tasks=include_tasks, only_failed=only_failed)
    return JSONResponse(answers.connector_state(state), 202)


@router.get("/{name:segment}/topics")
def topics(name: str, herder: HerderOf) -> Response:
    return JSONResponse({name: {"topics": herder.topics(name)}})


@router.put("/{name:segment}/topics/reset")
def reset_topics(name: str, herder: HerderOf) -> Response:
    herder.reset_topics(name)
    return Response(status_code=202)


@router.get("/{name:segment}/offsets")
def offsets(name: str, herder: HerderOf) -> Response:
    return JSONResponse(answers.offsets(herder.offsets(name)))


def _named(config: Config, name: str) -> Config:
    """The config with the connector's name, which it may not contradict."""
    own = config.get("name")
    if own is not None and own != name:
        raise BadRequest(f"Connector name configuration ({own}) doesn't match connector name in the URL ({name})")
    return {"name": name, **{key: value for key, value in config.items() if key != "name"}}


def _initial(text: str | None) -> TargetState:
    try:
        return TargetState.STARTED if text is None else _INITIAL[text.upper()]
    except KeyError:
        raise BadRequest(f"initial_state {text!r} is none of {', '.join(_INITIAL)}.") from None


def _created(request: Request, info: ConnectorInfo) -> Response:
    base = f"{request.url.scheme}://{request.url.netloc}"
    location = f"{base}/connectors/{quote(info.name, safe=_SEGMENT_SAFE)}"
    return JSONResponse(answers.connector_info(info), 201, {"Location": location})
