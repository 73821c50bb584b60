"""The pages of the worker: overview, a new connector, dead letters, the cluster; and the files that pages need."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from fastapi.responses import RedirectResponse, Response

from headrace.rest.console import troubles
from headrace.rest.console.forms import config_in, field_in, form_of
from headrace.rest.console.page import HEADERS, OVERVIEW, ROOT, Console, ConsoleOf, PageRoute, page_of, see, static
from headrace.rest.security.access import NEEDS_NOTHING
from headrace.worker.errors import NotFound

router = APIRouter(prefix=ROOT, include_in_schema=False, route_class=PageRoute, dependencies=[NEEDS_NOTHING])

_MOST_ROWS: Final = 100


@router.get("")
async def front() -> Response:
    return RedirectResponse(OVERVIEW, 302, dict(HEADERS))


@router.get("/overview")
async def overview(console: ConsoleOf, find: str = "", state: str = "", first: str = "") -> Response:
    ask = console.endpoints.ask
    listed, health, series, others = await asyncio.gather(
        ask("GET", "/connectors", expand="status"),
        ask("GET", "/health", strict="true"),
        ask("GET", "/series"),
        console.other_workers(),
    )
    if not listed.ok and health.get("status") != "starting":
        return await console.refused(listed)
    statuses = {name: one["status"] for name, one in (listed.body if listed.ok else {}).items()}
    connectors, tasks = troubles.by_state(statuses)
    begin = int(first[:9]) if first.isdecimal() else 0
    found = [one for one in sorted(statuses.items()) if _matches(*one, find, state)]
    rates = [one.get("records_per_s") or 0.0 for one in (series.get("connectors") or {}).values()]
    return await console.page(
        "overview.html",
        connectors=connectors,
        tasks=tasks,
        troubles=[*troubles.of_worker(health), *troubles.of_connectors(statuses)],
        rows=found[begin : begin + _MOST_ROWS],
        count=len(found),
        most=_MOST_ROWS,
        first=begin,
        find=find,
        state=state,
        series=series,
        most_rate=max(rates, default=0.0),
        health=health,
        workers=troubles.workers(statuses, [_here(console), *others]),
        leader=console.leader,
    )


def _matches(name: str, status: Mapping[str, Any], find: str, state: str) -> bool:
    states = {status["connector"]["state"], *(task["state"] for task in status["tasks"])}
    return find.lower() in name.lower() and (not state or state in states)


def _here(console: Console) -> str:
    worker_id: str = console.request.app.state.metrics.worker_id
    return worker_id


@router.get("/new")
async def new(console: ConsoleOf, plugin: str = "") -> Response:
    if not plugin:
        answer = await console.endpoints.ask("GET", "/connector-plugins")
        if not answer.ok:
            return await console.refused(answer)
        return await console.page("plugins.html", plugins=answer.body)
    config = {"connector.class": plugin, "tasks.max": "1"}
    answer = await console.endpoints.validate(config)
    if not answer.ok:
        return await console.refused(answer, f"{ROOT}/new")
    return await _new_page(console, config, answer.body, told=False)


@router.post("/new")
async def create(console: ConsoleOf) -> Response:
    sent = await console.form()
    fixed = {"name": field_in(sent, "name"), "connector.class": field_in(sent, "plugin")}
    config = {key: value for key, value in fixed.items() if value} | config_in(sent, {})
    do = field_in(sent, "do")
    if do == "create":
        state = field_in(sent, "initial_state") or "RUNNING"
        body = {"name": fixed["name"], "config": config, "initial_state": state}
        answer = await console.endpoints.ask("POST", "/connectors", body)
        if answer.ok:
            return see(page_of(fixed["name"]), "created")
        problem, status = answer.message, answer.status
    else:
        problem, status = "", 200
    validated = await console.endpoints.validate(config)
    if not validated.ok:
        return await console.refused(validated, f"{ROOT}/new")
    preview = await console.endpoints.preview_of_new(config) if do == "preview" else None
    lint = await console.endpoints.lint_of_new(config)
    return await _new_page(
        console, config, validated.body, told=True, status=status, problem=problem, preview=preview, lint=lint
    )


async def _new_page(
    console: Console, config: Mapping[str, str], validated: Any, *, told: bool, status: int = 200, **values: Any
) -> Response:
    # What was typed as a secret is not written into the page.
    shown = console.masked(config)
    form = form_of(shown, validated, told=told)
    plugin, name = config["connector.class"], config.get("name", "")
    before: dict[str, Any] = {"problem": "", "preview": None, "lint": None, "checked": told}
    return await console.page("new.html", status, **{**before, **values}, form=form, plugin=plugin, name=name)


@router.get("/dead-letters")
async def dead_letters(console: ConsoleOf) -> Response:
    listed = await console.endpoints.ask("GET", "/connectors", expand="info")
    if not listed.ok:
        return await console.refused(listed)
    topic = "errors.deadletterqueue.topic.name"
    rows = [(name, one["info"]["config"].get(topic)) for name, one in listed.body.items()]
    return await console.page("dead_letters_all.html", rows=sorted((name, to) for name, to in rows if to))


@router.get("/cluster")
async def cluster(console: ConsoleOf) -> Response:
    return await _cluster(console)


async def _cluster(console: Console, status: int = 200, problem: str = "") -> Response:
    ask = console.endpoints.ask
    listed, root, plugins, loggers, others = await asyncio.gather(
        ask("GET", "/connectors", expand="status"),
        ask("GET", "/"),
        ask("GET", "/connector-plugins", connectorsOnly="false"),
        ask("GET", "/admin/loggers"),
        console.other_workers(),
    )
    statuses = {name: one["status"] for name, one in (listed.body if listed.ok else {}).items()}
    return await console.page(
        "cluster.html",
        status,
        problem=problem,
        root_answer=root,
        workers=troubles.workers(statuses, [_here(console), *others]),
        leader=console.leader,
        here=_here(console),
        plugins=sorted(plugins.body, key=lambda one: (one["type"], one["class"])) if plugins.ok else [],
        loggers=loggers,
        topics=console.request.app.state.internal_topics,
    )


@router.post("/cluster/drain")
async def drain(console: ConsoleOf) -> Response:
    answer = await console.endpoints.ask("PUT", "/admin/drain")
    if not answer.ok:
        return await _cluster(console, answer.status, answer.message)
    return see(f"{ROOT}/cluster", "drained")


@router.post("/cluster/level")
async def level(console: ConsoleOf) -> Response:
    sent = await console.form()
    answer = await console.endpoints.set_level(
        field_in(sent, "logger"), field_in(sent, "level"), field_in(sent, "scope")
    )
    if not answer.ok:
        return await _cluster(console, answer.status, answer.message)
    return see(f"{ROOT}/cluster", "level")


@router.get("/static/{name}")
async def file(name: str) -> Response:
    found = static(name)
    if found is None:
        raise NotFound(f"The console has no file {name}.")
    return found
