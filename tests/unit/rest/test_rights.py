"""Each endpoint with each right, as docs/security-rest.md has them; nobody is shown more than may be seen."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import httpx
import pytest
from fastapi import APIRouter, FastAPI

from headrace.rest import mirror
from headrace.rest.app import ROUTERS, app, assembled
from headrace.rest.routes import admin
from headrace.rest.security.access import Needs, Of
from headrace.worker.errors import Elsewhere
from headrace.worker.herder.flows import Flows
from headrace.worker.herder.metrics import WorkerMetrics
from headrace.worker.herder.process_metrics import ProcessMetrics
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.model import ConnectorInfo, ConnectorState, State, Status, TaskId, TaskInfo
from headrace.worker.tasks.metrics import Stuck, TasksMetrics
from tests.unit.rest.conftest import Worker
from tests.unit.rest.scripted import Named, scripted, serving
from tests.unit.rest.test_app import FILE, refused, until
from tests.unit.rest.test_mirror import HEALTHY, view

ROOT: Final = Path(__file__).parents[3]
PAGE: Final = (ROOT / "docs" / "security-rest.md").read_text(encoding="utf-8")
TABLE: Final = {
    request: right.replace("`", "")
    for request, right in re.findall(r"^\| `([A-Z]+ /[^`]*)` \| ([^|]*?) \|", PAGE, re.MULTILINE)
}
"""The right that each request needs."""
INCLUDED: Final = {
    "none": set(),
    "view": {"view"},
    "view_config": {"view", "view_config"},
    "edit": {"view", "view_config", "edit"},
    "operate": {"view", "operate"},
    "offsets": {"view", "offsets"},
    "admin": {"admin"},
}
SECRET: Final = "ToPs3cret-value"
LACKS: Final = "lacks the right"


def rights_file(folder: Path, *rules: tuple[str, str, str]) -> str:
    """A file with these rules of who, connector and right."""
    parts = [
        f'[[rules]]\nwho = ["{who}"]\nrights = ["{right}"]\n' + (f'connectors = ["{name}"]\n' if name else "")
        for who, name, right in rules
    ]
    file = folder / "rights.toml"
    file.write_text("\n".join(parts), encoding="utf-8")
    return str(file)


@pytest.fixture
def one_right_each(tmp_path: Path) -> str:
    """A file that gives the user of each right this right, of the connector c."""
    own = [(f"user:{right}", "" if right == "admin" else "c", right) for right in INCLUDED if right != "none"]
    return rights_file(tmp_path, *own, ("user:all-views", "*", "view"))


def as_user(client: httpx.Client, user: str, method: str, path: str, **given: Any) -> httpx.Response:
    return client.request(method, path, headers={"x-user": user}, **given)


def routes_of(*routers: APIRouter) -> Iterator[tuple[str, Needs | None]]:
    for router in routers:
        for route in router.routes:
            path = re.sub(r":\w+}", "}", route.path)  # type: ignore[attr-defined]
            for method in route.methods:  # type: ignore[attr-defined]
                yield f"{method} {path}", Needs.declared_by(route)


ALL_ROUTES: Final = list(routes_of(*ROUTERS, admin.router))


def test_every_route_declares_the_right_that_the_page_says() -> None:
    declared = {}
    for request, needs in [*ALL_ROUTES, *routes_of(mirror._health, mirror._internal)]:
        assert needs is not None, f"{request} declares no right: see rest/security/access.py"
        right = "none" if needs.right is None else str(needs.right)
        declared[request] = f"{right} of all" if needs.of is Of.ALL else right
    of_flows = {request for request in declared if "{source}" in request}
    assert {request: declared[request] for request in declared.keys() - of_flows} == TABLE
    assert {declared[request] for request in of_flows} == {"none"}


BODIES: Final[Mapping[str, Any]] = {
    "POST /connectors": {"name": "c", "config": FILE},
    "PUT /connectors/{name}/config": FILE,
    "PATCH /connectors/{name}/config": {"batch.size": "7"},
    "PATCH /connectors/{name}/offsets": {"offsets": [{"partition": {"filename": "in.txt"}, "offset": None}]},
    "PUT /connector-plugins/{plugin}/config/validate": {**FILE, "name": "c"},
    "PUT /connector-plugins/{plugin}/config/preview": {**FILE, "name": "c"},
    "POST /connectors/{name}/preview": {},
    "PUT /admin/loggers/{name}": {"level": "INFO"},
    "POST /connectors/{name}/tasks": [],
    "POST /connectors/{name}/rollback": {"revision": 1},
    "POST /connectors/{name}/dead-letters/replay": {},
}


def test_each_request_is_answered_to_who_has_its_right_only(
    workers: Callable[..., Worker], one_right_each: str
) -> None:
    running = workers()
    herder: Any = running.herder
    herder.drain = lambda: None
    assert {request for request, _ in ALL_ROUTES} == set(TABLE)
    with serving(herder, {"rest.rights.file": one_right_each}, forwards=False, around=Named) as client:
        for request, right in TABLE.items():
            method, path = request.split(" ")
            for user, has in INCLUDED.items():
                running.client.put("/connectors/c/config", json=FILE)
                named = path.format(name="headrace.x" if "loggers" in path else "c", task=0, plugin="FileStreamSource")
                answer = as_user(client, user, method, named, json=BODIES.get(request))
                lacks = LACKS in answer.text
                assert lacks is (right != "none" and right not in has), f"{user} asked {request}: {answer.text}"
                if lacks:
                    wanted, _, of_all = right.partition(" of ")
                    where = "" if right == "admin" else " for all" if of_all else " for"
                    assert f"{user} lacks the right {wanted}{where}" in refused(answer, 403)
        assert as_user(client, "all-views", "GET", "/metrics").status_code == 200
        running.client.delete("/connectors/c")


@pytest.mark.parametrize(
    "path", ["/config", "/status", "/series", "/tasks", "/topics", "", "/offsets", "/tasks/0/status", "/history"]
)
def test_whether_a_connector_exists_is_not_told(workers: Callable[..., Worker], one_right_each: str, path: str) -> None:
    running = workers()
    running.client.put("/connectors/there/config", json=FILE)
    with serving(running.herder, {"rest.rights.file": one_right_each}, around=Named) as client:
        there = as_user(client, "edit", "GET", f"/connectors/there{path}")
        none = as_user(client, "edit", "GET", f"/connectors/none0{path}")
        assert as_user(client, "edit", "GET", "/connectors").json() == []
    assert there.status_code == none.status_code == 403
    assert there.text.replace("there", "none0") == none.text
    running.client.delete("/connectors/there")


def test_names_in_bodies_are_judged(one_right_each: str) -> None:
    herder = scripted()
    with serving(herder, {"rest.rights.file": one_right_each}, around=Named) as client:
        created = as_user(client, "edit", "POST", "/connectors", json={"name": "d", "config": {"name": "c"}})
        other = as_user(client, "edit", "POST", "/connectors", json={"name": "c", "config": {"name": "d"}})
        put = as_user(client, "edit", "PUT", "/connectors/c/config", json={"name": "d"})
        path = "/connector-plugins/Known/config/validate"
        validated = as_user(client, "edit", "PUT", path, json={"name": "d"})
        assert refused(created, 403).startswith("edit lacks the right edit for the connector 'd'")
        assert refused(other, 400)
        assert refused(put, 400)
        assert refused(validated, 403).startswith("edit lacks the right edit for the connector 'd'")
        assert refused(as_user(client, "view", "PUT", path, json={"name": "c"}), 403)
        # Before the body is looked at: it is not JSON.
        assert refused(as_user(client, "view", "POST", "/connectors", content=b"{"), 403)
    assert herder.asked == []


def test_a_name_is_judged_as_the_herder_gets_it(tmp_path: Path) -> None:
    file = rights_file(tmp_path, ("user:anna", "a/b", "operate"))
    herder = scripted()
    with serving(herder, {"rest.rights.file": file}, around=Named) as client:
        assert as_user(client, "anna", "PUT", "/connectors/a%2Fb/pause").status_code == 202
        for path in ("a%2Fb%2F", "a%252Fb", "A%2Fb", "a%2Fb%20", "a%2Fb%00"):
            assert refused(as_user(client, "anna", "PUT", f"/connectors/{path}/pause"), 403)
    assert herder.asked == [("pause", "a/b")]


def _herder_of_secrets() -> Any:
    config = {"connector.class": "Known", "name": "c", "file": SECRET}
    failed = Status(State.FAILED, "here:8083", "1", f"ValueError: {SECRET}")
    info = ConnectorInfo("c", config, [TaskId("c", 0)], "sink")
    state = ConnectorState("c", failed, {0: failed}, "sink")
    return scripted(
        {
            "connectors": ["c", "d"],
            "connector_info": info,
            "connector_state": lambda name: ConnectorState(name, failed, {0: failed}, "sink"),
            "task_infos": [TaskInfo(TaskId("c", 0), config)],
            "task_state": failed,
            "restart_with": state,
            "offsets": [({"file": SECRET}, {"at": 1})],
            "topics": ["t"],
        }
    )


def test_no_config_is_shown_to_who_may_not_see_it(tmp_path: Path) -> None:
    file = rights_file(
        tmp_path, ("user:oncall", "*", "view"), ("user:oncall", "c", "operate"), ("user:reader", "c", "view_config")
    )
    paths = [f"/connectors/c{path}" for path in ("", "/config", "/status", "/tasks", "/topics", "/offsets")]
    paths += ["/connectors/c/tasks/0/status", "/connectors?expand=info&expand=status", "/connectors", "/metrics"]
    with serving(_herder_of_secrets(), {"rest.rights.file": file}, around=Named) as client:
        for path in [*paths, "/health?strict", "/openapi.json", "/docs"]:
            assert SECRET not in as_user(client, "oncall", "GET", path).text, path
        restarted = as_user(client, "oncall", "POST", "/connectors/c/restart?onlyFailed=true")
        assert restarted.status_code == 202
        assert SECRET not in restarted.text
        both = as_user(client, "oncall", "GET", "/connectors?expand=info&expand=status").json()
        assert both["c"]["info"] == {
            "name": "c",
            "config": {},
            "tasks": [{"connector": "c", "task": 0}],
            "type": "sink",
        }
        assert both["c"]["status"]["tasks"][0]["state"] == "FAILED"
        assert "view_config" in both["c"]["status"]["tasks"][0]["trace"]
        one = as_user(client, "reader", "GET", "/connectors?expand=info&expand=status").json()
        assert list(one) == ["c"]
        assert one["c"]["info"]["config"]["file"] == SECRET
        assert one["c"]["status"]["connector"]["trace"] == f"ValueError: {SECRET}"


def test_health_names_only_what_may_be_viewed(tmp_path: Path) -> None:
    file = rights_file(tmp_path, ("user:anna", "c", "view"))
    tasks = TasksMetrics()
    stuck = SimpleNamespace(stuck=lambda: Stuck("batch", 60.0, "it waits"))
    tasks.all = lambda: {TaskId("c", 0): stuck, TaskId("d", 0): stuck}  # type: ignore[assignment,method-assign,return-value]
    herder = _herder_of_secrets()
    herder.script |= {"health": SimpleNamespace(status="healthy", message="fine"), "kafka_away_seconds": 0.0}
    with serving(herder, {"rest.rights.file": file}, around=Named, tasks=tasks) as client:
        anna, nobody = (as_user(client, user, "GET", "/health?strict").json() for user in ("anna", "nobody"))
    assert [one["connector"] for one in anna["unhealthy_tasks"]] == ["c"]
    assert anna["message"] == "FAILED here: c, c-0 and 2 more"
    assert "unhealthy_tasks" not in nobody
    assert nobody["message"] == "FAILED here: 4 more"


def test_who_has_no_login_is_refused_unless_a_rule_names_them(tmp_path: Path) -> None:
    file = rights_file(tmp_path, ("ANONYMOUS", "open", "view"), ("group:ops", "c", "view"))
    herder = scripted({"connectors": ["c", "open"], "topics": []})
    with serving(herder, {"rest.rights.file": file}, around=Named) as client:
        assert client.get("/connectors").json() == ["open"]
        assert refused(client.get("/connectors/c/topics"), 403).startswith("ANONYMOUS lacks the right view for")
        ops = {"x-user": "ben", "x-group": "ops"}
        assert client.get("/connectors", headers=ops).json() == ["c"]
        assert client.head("/connectors/c/topics", headers=ops).status_code == 200
        assert client.head("/connectors/open/topics", headers=ops).status_code == 403


def test_without_a_file_everybody_may_do_everything(workers: Callable[..., Worker]) -> None:
    running = workers()
    assert running.client.put("/connectors/free/config", json=FILE).status_code == 201
    assert running.client.get("/metrics").status_code == running.client.get("/admin/loggers").status_code == 200
    assert running.client.delete("/connectors/free").status_code == 204


def test_the_file_is_read_again_and_a_broken_one_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = rights_file(tmp_path, ("user:anna", "c", "view"))
    herder = scripted({"connectors": ["c", "d"]})

    def replaced(text: str) -> None:
        new = tmp_path / "new"
        new.write_text(text)
        os.replace(new, path)

    with serving(herder, {"rest.rights.file": path}, around=Named) as client:

        def listed(user: str) -> Any:
            return as_user(client, user, "GET", "/connectors").json()

        assert listed("anna") == ["c"]
        replaced("[[rules]\n")
        until(lambda: listed("anna") == ["c"] and "no valid TOML" in caplog.text)
        replaced('[[rules]]\nwho = ["user:anna"]\nconnectors = ["d"]\nrights = ["view"]')
        until(lambda: listed("anna") == ["d"])
        Path(path).unlink()
        until(lambda: listed("anna") == ["d"] and "cannot be read" in caplog.text)
    assert caplog.text.count("no valid TOML") == caplog.text.count("cannot be read") == 1


def test_a_forwarded_request_is_judged_here_and_there(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    here = rights_file(tmp_path / "a", ("*", "c", "edit"))
    there = rights_file(tmp_path / "b", ("*", "c", "view"))
    leader = scripted({"delete": None})
    with serving(leader, {"rest.rights.file": there}) as second:
        herder = scripted({"delete": Elsewhere(f"{second.base_url}/")})
        with serving(herder, {"rest.rights.file": here}) as first:
            assert refused(first.delete("/connectors/d"), 403).startswith("ANONYMOUS lacks the right edit for")
            assert herder.asked == []
            assert refused(first.delete("/connectors/c"), 403).startswith("ANONYMOUS lacks the right edit for")
    assert leader.asked == []


def test_a_route_that_declares_nothing_is_an_administrator_s(one_right_each: str) -> None:
    router = APIRouter()

    @router.get("/extension")
    def extension() -> str:
        return "done"

    def made(settings: Mapping[str, Any]) -> Any:
        return Named(assembled(FastAPI(openapi_url=None), [router], settings, None))

    with serving(scripted(), around=lambda _: made({"rest.rights.file": one_right_each})) as client:
        assert refused(as_user(client, "edit", "GET", "/extension"), 403).startswith("edit lacks the right admin.")
        assert as_user(client, "admin", "GET", "/extension").json() == "done"
    with serving(scripted(), around=lambda _: made({})) as client:
        assert client.get("/extension").json() == "done"


def test_a_mirrormaker_process_asks_for_rights_too(tmp_path: Path) -> None:
    flows = Flows(ProcessMetrics())
    flows.show("A", "B", view(scripted({"health": HEALTHY, "connectors": []}), "A->B"))
    file = rights_file(tmp_path, ("user:prometheus", "*", "view"))
    settings = {"rest.rights.file": file}
    with serving(scripted(), around=lambda _: Named(mirror.app(flows, settings, None))) as client:
        assert refused(client.get("/metrics"), 403).startswith("ANONYMOUS lacks the right view for all connectors.")
        assert as_user(client, "prometheus", "GET", "/metrics").status_code == 200
        assert client.get("/health").json()["flows"]["A->B"]["status"] == "healthy"


def test_the_page_s_rules_are_rules(tmp_path: Path) -> None:
    text = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert text is not None
    (tmp_path / "rights.toml").write_text(text[1], encoding="utf-8")
    metrics_of = WorkerMetrics(scripted(), "here:8083", TasksMetrics(), StartupCounter())
    assert app(scripted(), metrics_of, {"rest.rights.file": str(tmp_path / "rights.toml")}) is not None
