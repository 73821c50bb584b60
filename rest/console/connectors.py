"""The pages of one connector: its state, config, offsets, log, dead letters and history."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import Response

from headrace.config.values import HIDDEN
from headrace.rest.console import troubles
from headrace.rest.console.endpoints import Answer
from headrace.rest.console.forms import changes, config_in, field_in, form_of, restored
from headrace.rest.console.page import OVERVIEW, ROOT, Console, ConsoleOf, PageRoute, page_of, see
from headrace.rest.security.access import NEEDS_NOTHING
from headrace.worker.errors import BadRequest, NotFound

router = APIRouter(
    prefix=f"{ROOT}/connectors", include_in_schema=False, route_class=PageRoute, dependencies=[NEEDS_NOTHING]
)

_ACTIONS: Final[Mapping[str, tuple[str, str, Mapping[str, str], str]]] = {
    "pause": ("PUT", "/pause", {}, "paused"),
    "resume": ("PUT", "/resume", {}, "resumed"),
    "stop": ("PUT", "/stop", {}, "stopped"),
    "restart": ("POST", "/restart", {"includeTasks": "true", "onlyFailed": "false"}, "restarted"),
    "restart-failed": ("POST", "/restart", {"includeTasks": "true", "onlyFailed": "true"}, "restarted"),
    "forget-topics": ("PUT", "/topics/reset", {}, "topics"),
}
"""The work of each button: method and path below the connector, query, and the sentence afterwards."""


@router.get("/{name:segment}")
async def connector(name: str, console: ConsoleOf) -> Response:
    return await _connector(name, console)


async def _connector(name: str, console: Console, status: int = 200, problem: str = "") -> Response:
    of = console.endpoints.of
    info, state, topics, series, health = await asyncio.gather(
        of(name),
        of(name, "/status"),
        of(name, "/topics"),
        of(name, "/series"),
        console.endpoints.ask("GET", "/health"),
    )
    if not info.ok:
        return await console.refused(info)
    shown = {name: state.body} if state.ok else {}
    stuck = [one for one in troubles.of_worker(health) if one.connector == name]
    return await console.page(
        "connector.html",
        status,
        name=name,
        tab="",
        problem=problem,
        info=info,
        state=state,
        used=topics.body[name]["topics"] if topics.ok else [],
        series=series,
        troubles=[*stuck, *troubles.of_connectors(shown)],
        next_start=troubles.next_start,
        reason=troubles.reason,
    )


@router.get("/{name:segment}/config")
async def config(name: str, console: ConsoleOf) -> Response:
    present = await console.endpoints.of(name, "/config")
    if not present.ok:
        return await console.refused(present, page_of(name))
    return await _config_page(name, console, present.body, console.masked(present.body), told=False)


@router.post("/{name:segment}/config")
async def change_config(name: str, console: ConsoleOf) -> Response:
    sent = await console.form()
    present = await console.endpoints.of(name, "/config")
    if not present.ok:
        return await console.refused(present, page_of(name))
    shown = console.masked(present.body)
    fixed = {key: value for key in ("name", "connector.class") if (value := shown.get(key)) is not None}
    wanted = fixed | config_in(sent, shown)
    changed = changes(shown, wanted)
    match field_in(sent, "do"):
        case "save" if not changed:
            return see(page_of(name), "unchanged")
        case "save":
            answer = await console.endpoints.of(name, "/config", "PUT", restored(wanted, present.body))
            if answer.ok:
                return see(page_of(name), "saved")
            return await _config_page(name, console, present.body, wanted, told=True, answer=answer)
        case "preview":
            preview = await console.endpoints.preview(name, changed)
            return await _config_page(name, console, present.body, wanted, told=True, preview=preview)
    return await _config_page(name, console, present.body, wanted, told=True)


async def _config_page(
    name: str,
    console: Console,
    present: Mapping[str, str | None],
    wanted: Mapping[str, str | None],
    *,
    told: bool,
    answer: Answer | None = None,
    preview: Answer | None = None,
) -> Response:
    """The editor with the wanted config; `told`: with what is wrong with it. `answer`: why it was not saved."""
    config = restored({key: value for key, value in wanted.items() if value is not None}, present)
    before, after = console.masked(present), console.masked(wanted)
    validated: Any = None
    if console.may("edit", name):
        validated = (await console.endpoints.validate(config)).body
    lint = await (console.endpoints.lint_of_new(config) if told else console.endpoints.of(name, "/lint"))
    return await console.page(
        "config.html",
        answer.status if answer is not None else 200,
        name=name,
        tab="config",
        problem=answer.message if answer is not None else "",
        form=form_of(after, validated, told=told),
        shown=before,
        changed=_differences(before, after, present, wanted),
        preview=preview,
        lint=lint,
        checked=told,
    )


def _differences(
    before: Mapping[str, str | None],
    after: Mapping[str, str | None],
    present: Mapping[str, str | None],
    wanted: Mapping[str, str | None],
) -> list[tuple[str, str | None, str | None]]:
    """The settings that differ, with both values as they are shown."""
    keys = [key for key in {**before, **after} if present.get(key) != wanted.get(key) and wanted.get(key) != HIDDEN]
    return [(key, before.get(key), after.get(key)) for key in sorted(keys)]


@router.get("/{name:segment}/offsets")
async def offsets(name: str, console: ConsoleOf) -> Response:
    return await _offsets(name, console)


async def _offsets(
    name: str, console: Console, status: int = 200, problem: str = "", wanted: Sequence[Any] | None = None
) -> Response:
    found, state = await asyncio.gather(console.endpoints.of(name, "/offsets"), console.endpoints.of(name, "/status"))
    if not found.ok:
        return await console.refused(found, page_of(name))
    stopped = state.ok and state.body["connector"]["state"] == "STOPPED"
    return await console.page(
        "offsets.html",
        status,
        name=name,
        tab="offsets",
        problem=problem,
        offsets=found.body["offsets"],
        wanted=wanted,
        stopped=stopped,
        kind=state.get("type", ""),
    )


@router.post("/{name:segment}/offsets")
async def change_offsets(name: str, console: ConsoleOf) -> Response:
    sent = await console.form()
    match field_in(sent, "do"):
        case "reset":
            answer = await console.endpoints.of(name, "/offsets", "DELETE")
        case "time":
            found = await console.endpoints.offsets_at(name, field_in(sent, "time"))
            if found.ok:
                return await _offsets(name, console, wanted=found.body["offsets"])
            answer = found
        case _:
            wanted = _changed_offsets(sent)
            if not wanted:
                return see(page_of(name, "offsets"), "unchanged")
            answer = await console.endpoints.of(name, "/offsets", "PATCH", {"offsets": wanted})
    if not answer.ok:
        return await _offsets(name, console, answer.status, answer.message)
    return see(page_of(name, "offsets"), "offsets")


def _changed_offsets(sent: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The offsets of a form that differ from those it began with; an empty one resets its partition.

    Errors: BadRequest.
    """
    columns = [[value.strip() for field, value in sent if field == name] for name in ("partition", "before", "offset")]
    rows = zip(*columns, strict=False)
    try:
        return [
            {"partition": json.loads(partition), "offset": json.loads(after) if after else None}
            for partition, before, after in rows
            if partition and before != after
        ]
    except ValueError as error:
        raise BadRequest(f"A partition and an offset are JSON objects: {error}") from error


@router.get("/{name:segment}/log")
async def log(name: str, console: ConsoleOf) -> Response:
    return await console.page("log.html", name=name, tab="log", logs=await console.endpoints.logs(name))


@router.get("/{name:segment}/history")
async def history(name: str, console: ConsoleOf) -> Response:
    return await _history(name, console)


async def _history(name: str, console: Console, status: int = 200, problem: str = "") -> Response:
    found = await console.endpoints.of(name, "/history")
    return await console.page("history.html", status, name=name, tab="history", problem=problem, history=found)


@router.post("/{name:segment}/history")
async def roll_back(name: str, console: ConsoleOf) -> Response:
    sent = await console.form()
    answer = await console.endpoints.of(name, "/rollback", "POST", {"revision": field_in(sent, "revision")})
    if not answer.ok:
        return await _history(name, console, answer.status, answer.message)
    return see(page_of(name), "rolled-back")


@router.get("/{name:segment}/dead-letters")
async def dead_letters(name: str, console: ConsoleOf, before: str = "") -> Response:
    return await _dead_letters(name, console, before=before)


async def _dead_letters(
    name: str, console: Console, status: int = 200, problem: str = "", before: str = ""
) -> Response:
    letters, causes = await asyncio.gather(
        console.endpoints.dead_letters(name, before), console.endpoints.of(name, "/dead-letters/causes")
    )
    return await console.page(
        "dead_letters.html", status, name=name, tab="dead-letters", problem=problem, letters=letters, causes=causes
    )


@router.post("/{name:segment}/dead-letters")
async def answer_dead_letters(name: str, console: ConsoleOf) -> Response:
    sent = await console.form()
    if field_in(sent, "do") == "delete":
        answer, done = await console.endpoints.delete_dead_letters(name), "dead-letters-deleted"
    else:
        answer = await console.endpoints.replay(name, field_in(sent, "record"), field_in(sent, "cause"))
        done = "replayed"
    if not answer.ok:
        return await _dead_letters(name, console, answer.status, answer.message)
    return see(page_of(name, "dead-letters"), f"{done}-in-part" if answer.get("more") else done)


@router.post("/{name:segment}/delete")
async def delete(name: str, console: ConsoleOf) -> Response:
    answer = await console.endpoints.of(name, "", "DELETE")
    if not answer.ok:
        return await _connector(name, console, answer.status, answer.message)
    return see(OVERVIEW, "deleted")


@router.post("/{name:segment}/tasks/{task:number}/restart")
async def restart_task(name: str, task: int, console: ConsoleOf) -> Response:
    answer = await console.endpoints.of(name, f"/tasks/{task}/restart", "POST")
    if not answer.ok:
        return await _connector(name, console, answer.status, answer.message)
    return see(page_of(name), "restarted")


@router.post("/{name:segment}/{action}")
async def act(name: str, action: str, console: ConsoleOf) -> Response:
    if action not in _ACTIONS:
        raise NotFound(f"The console has no action {action}.")
    method, path, query, done = _ACTIONS[action]
    answer = await console.endpoints.of(name, path, method, **query)
    if not answer.ok:
        return await _connector(name, console, answer.status, answer.message)
    return see(page_of(name), done)
