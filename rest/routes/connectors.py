"""`/connectors` and everything below it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from headrace.config.worker.rights import Right
from headrace.rest.http import documented
from headrace.rest.http.bodies import (
    Config,
    ConfiguredConnector,
    ConfiguredTask,
    ConnectorOffsets,
    ConnectorStateInfo,
    ExpandedConnector,
    Message,
    NewConnector,
    TaskState,
    UsedTopics,
    WantedOffsets,
    json_answer,
)
from headrace.rest.http.masking import MaskingOf
from headrace.rest.http.requests import (
    ConfigBody,
    HerderOf,
    JsonObject,
    OffsetsBody,
    SignedRequest,
    config_of,
    knows_connectors,
    ms_of,
    own_url,
    speaks_json,
    task_configs_of,
    text_of,
)
from headrace.rest.routes.unknown_settings import unknown_settings_header
from headrace.rest.security.access import NEEDS_NOTHING, Of, needs
from headrace.rest.security.audit import ChangeOf
from headrace.rest.security.view_filter import ViewFilter, ViewFilterOf
from headrace.worker.errors import BadRequest, NotFound
from headrace.worker.herder.api import Herder
from headrace.worker.herder.rest_paths import connector_path
from headrace.worker.model import INITIAL_STATES, ConnectorInfo, TargetState, TaskId
from headrace.worker.model import Config as ConnectorConfig

router = APIRouter(
    prefix="/connectors",
    tags=["connectors"],
    responses=documented.ERRORS,
    dependencies=[Depends(speaks_json), Depends(knows_connectors)],
)

INFO = documented.answers("The connector as it is configured.", ConfiguredConnector)
CREATED = documented.answers("The connector, just created.", ConfiguredConnector, 201)
_MESSAGE = documented.answers("The outcome.", Message)
_LISTED = documented.answers("All names, or the members of each.", list[str] | dict[str, ExpandedConnector])


@router.get("", dependencies=[NEEDS_NOTHING], responses=_LISTED)
def list_connectors(herder: HerderOf, view: ViewFilterOf, expand: documented.Expand) -> Response:
    names = view.access.visible(herder.connectors())
    if not expand:
        return json_answer(names)
    found: dict[str, ExpandedConnector] = {}
    for name in names:
        try:
            found[name] = _expanded(name, expand, herder, view)
        except NotFound:
            continue  # without status yet, or just deleted
    return json_answer(found)


def _expanded(name: str, expand: list[str], herder: Herder, view: ViewFilter) -> ExpandedConnector:
    one: ExpandedConnector = {}
    for expansion in expand:
        if expansion == "status":
            one["status"] = view.state(herder.connector_state(name))
        elif expansion == "info":
            one["info"] = view.connector(herder.connector_info(name))
    return one


@router.post(
    "",
    dependencies=[needs(Right.EDIT, Of.ANY)],
    status_code=201,
    responses=CREATED,
    openapi_extra=documented.takes(NewConnector),
)
def create(request: Request, body: JsonObject, herder: HerderOf, view: ViewFilterOf, change: ChangeOf) -> Response:
    members = NewConnector.model_fields
    unknown = [key for key in body if key not in members]
    if unknown:
        known = ", ".join(members)
        raise BadRequest(f"Unrecognized field(s) {', '.join(unknown)}; a connector is created from {known}.")
    if body.get("config") is None:
        raise BadRequest('The member "config" is missing: give the connector\'s configuration.')
    name = text_of(body.get("name")) or ""
    view.access.require(Right.EDIT, name)
    config = _named(config_of(body["config"], 'The member "config"'), name)
    view.masking.refuse_hidden(config)
    change.creates(name, config)
    info = herder.create(name, config, _initial(text_of(body.get("initial_state"))))
    return _created(request, info, view)


@router.get("/{name:segment}", dependencies=[needs(Right.VIEW)], responses=INFO)
def connector(name: str, herder: HerderOf, view: ViewFilterOf) -> Response:
    return json_answer(view.connector(herder.connector_info(name)))


@router.delete("/{name:segment}", dependencies=[needs(Right.EDIT)], status_code=204, response_description="It is done.")
def delete(name: str, herder: HerderOf, change: ChangeOf) -> Response:
    change.deletes(name)
    herder.delete(name)
    return Response(status_code=204)


@router.get(
    "/{name:segment}/config",
    dependencies=[needs(Right.VIEW_CONFIG)],
    responses=documented.answers("Its configuration.", Config),
)
def config(name: str, herder: HerderOf, masking: MaskingOf) -> Response:
    # As in Connect with secrets, unless they are masked: clients read a config, change it and put it back.
    return json_answer(masking.shown(herder.connector_info(name).config))


@router.put(
    "/{name:segment}/config",
    dependencies=[needs(Right.EDIT)],
    responses=INFO | CREATED,
    openapi_extra=documented.takes(Config),
)
def put_config(
    name: str, request: Request, body: ConfigBody, herder: HerderOf, view: ViewFilterOf, change: ChangeOf
) -> Response:
    meant = view.masking.meant(request, name, _named(body, name))
    change.configures(name, meant)
    return configured(request, *herder.configure(name, meant), view)


@router.patch(
    "/{name:segment}/config",
    dependencies=[needs(Right.EDIT)],
    responses=INFO,
    openapi_extra=documented.takes(Config),
)
def patch_config(
    name: str, request: Request, body: ConfigBody, herder: HerderOf, view: ViewFilterOf, change: ChangeOf
) -> Response:
    if "name" in body:
        _named(body, name)
    meant = view.masking.meant(request, name, body)
    change.patches(name, meant)
    return _configured(herder.patch(name, meant), view)


@router.get(
    "/{name:segment}/status",
    dependencies=[needs(Right.VIEW)],
    responses=documented.answers("Its state, and those of its tasks.", ConnectorStateInfo),
)
def status(name: str, herder: HerderOf, view: ViewFilterOf) -> Response:
    return json_answer(view.state(herder.connector_state(name)))


@router.get(
    "/{name:segment}/tasks",
    dependencies=[needs(Right.VIEW_CONFIG)],
    responses=documented.answers("Its tasks.", list[ConfiguredTask]),
)
def tasks(name: str, herder: HerderOf, masking: MaskingOf) -> Response:
    found = herder.task_infos(name)
    plugin = herder.connector_info(name).config.get("connector.class") if masking.enabled else None
    return json_answer([ConfiguredTask.of(info, masking.shown(info.config, plugin)) for info in found])


@router.post(
    "/{name:segment}/tasks",
    dependencies=[NEEDS_NOTHING],
    status_code=204,
    response_description="It is done.",
    tags=["internal"],
    openapi_extra=documented.takes(list[Config]),
)
def put_task_configs(name: str, request: SignedRequest, herder: HerderOf) -> Response:
    herder.put_task_configs(name, task_configs_of(request), request)
    return Response(status_code=204)


@router.put(
    "/{name:segment}/fence",
    dependencies=[NEEDS_NOTHING],
    status_code=204,
    tags=["internal"],
    response_description="It is done.",
)
def fence_zombies(name: str, request: SignedRequest, herder: HerderOf) -> Response:
    herder.fence_zombies(name, request)
    return Response(status_code=204)


@router.get(
    "/{name:segment}/tasks/{task:number}/status",
    dependencies=[needs(Right.VIEW)],
    responses=documented.answers("The state of the task.", TaskState),
)
def task_status(name: str, task: int, herder: HerderOf, view: ViewFilterOf) -> Response:
    return json_answer(view.task(name, task, herder.task_state(TaskId(name, task))))


@router.post(
    "/{name:segment}/tasks/{task:number}/restart",
    dependencies=[needs(Right.OPERATE)],
    status_code=204,
    response_description="It is done.",
)
def restart_task(name: str, task: int, herder: HerderOf) -> Response:
    herder.restart_task(TaskId(name, task))
    return Response(status_code=204)


@router.put(
    "/{name:segment}/pause",
    dependencies=[needs(Right.OPERATE)],
    status_code=202,
    response_class=Response,
    response_description="It is under way.",
)
def pause(name: str, herder: HerderOf) -> Response:
    herder.pause(name)
    return Response(status_code=202)


@router.put(
    "/{name:segment}/resume",
    dependencies=[needs(Right.OPERATE)],
    status_code=202,
    response_class=Response,
    response_description="It is under way.",
)
def resume(name: str, herder: HerderOf) -> Response:
    herder.resume(name)
    return Response(status_code=202)


@router.put(
    "/{name:segment}/stop", dependencies=[needs(Right.OPERATE)], status_code=204, response_description="It is done."
)
def stop(name: str, herder: HerderOf) -> Response:
    herder.stop_connector(name)
    return Response(status_code=204)


@router.post(
    "/{name:segment}/restart",
    dependencies=[needs(Right.OPERATE)],
    status_code=204,
    response_description="It is done.",
    responses=documented.answers("Its parts that restart are RESTARTING.", ConnectorStateInfo, 202),
)
def restart(
    name: str,
    herder: HerderOf,
    view: ViewFilterOf,
    include_tasks: documented.IncludeTasks = False,
    only_failed: documented.OnlyFailed = False,
) -> Response:
    if not include_tasks and not only_failed:
        herder.restart(name)
        return Response(status_code=204)
    state = herder.restart_with(name, include_tasks=include_tasks, only_failed=only_failed)
    return json_answer(view.state(state), 202)


@router.get(
    "/{name:segment}/topics",
    dependencies=[needs(Right.VIEW)],
    responses=documented.answers("The topics that it used.", dict[str, UsedTopics]),
)
def topics(name: str, herder: HerderOf) -> Response:
    return json_answer({name: UsedTopics(topics=herder.topics(name))})


@router.put(
    "/{name:segment}/topics/reset",
    dependencies=[needs(Right.OPERATE)],
    status_code=202,
    response_class=Response,
    response_description="It is under way.",
)
def reset_topics(name: str, herder: HerderOf) -> Response:
    herder.reset_topics(name)
    return Response(status_code=202)


@router.get(
    "/{name:segment}/offsets",
    dependencies=[needs(Right.OFFSETS)],
    responses=documented.answers("The offset of each partition.", ConnectorOffsets),
)
def offsets(name: str, herder: HerderOf) -> Response:
    return json_answer(ConnectorOffsets.of(herder.offsets(name)))


@router.get(
    "/{name:segment}/offsets/at",
    dependencies=[needs(Right.OFFSETS)],
    responses=documented.answers("The offsets of a sink's partitions at a time.", ConnectorOffsets),
)
def offsets_at(name: str, herder: HerderOf, time: documented.Time = "") -> Response:
    return json_answer(ConnectorOffsets.of(herder.offsets_at(name, ms_of(time))))


@router.patch(
    "/{name:segment}/offsets",
    dependencies=[needs(Right.OFFSETS)],
    responses=_MESSAGE,
    openapi_extra=documented.takes(WantedOffsets),
)
def alter_offsets(name: str, body: OffsetsBody, herder: HerderOf, change: ChangeOf) -> Response:
    change.tells(offsets=[{"partition": partition, "offset": offset} for partition, offset in body])
    return json_answer(Message(message=herder.alter_offsets(name, body)))


@router.delete("/{name:segment}/offsets", dependencies=[needs(Right.OFFSETS)], responses=_MESSAGE)
def reset_offsets(name: str, herder: HerderOf) -> Response:
    return json_answer(Message(message=herder.reset_offsets(name)))


def _named(config: ConnectorConfig, name: str) -> ConnectorConfig:
    """The config with the connector's name. Errors: BadRequest if it has another name."""
    own = config.get("name")
    if own is not None:
        check_name(own, name)
    return {"name": name, **{key: value for key, value in config.items() if key != "name"}}


def check_name(own: str | None, name: str) -> None:
    """Checks that a config's own name is the one in the URL. Errors: BadRequest."""
    if own != name:
        raise BadRequest(f"Connector name configuration ({own}) doesn't match connector name in the URL ({name})")


def _initial(text: str | None) -> TargetState:
    try:
        return TargetState.STARTED if text is None else INITIAL_STATES[text.upper()]
    except KeyError:
        raise BadRequest(f"initial_state {text!r} is none of {', '.join(INITIAL_STATES)}.") from None


def configured(request: Request, created: bool, info: ConnectorInfo, view: ViewFilter) -> Response:
    """The answer to a request that set a connector's config."""
    return _created(request, info, view) if created else _configured(info, view)


def _created(request: Request, info: ConnectorInfo, view: ViewFilter) -> Response:
    return _configured(info, view, 201, {"Location": f"{own_url(request)}{connector_path(info.name)}"})


def _configured(
    info: ConnectorInfo, view: ViewFilter, status: int = 200, headers: Mapping[str, str] = MappingProxyType({})
) -> Response:
    return json_answer(view.connector(info), status, {**headers, **unknown_settings_header(info.unread)})
