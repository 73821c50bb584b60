"""The console over the real herder: its pages and forms, and what a user, a stranger and a foreign page get of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx
import pytest
from fastapi.routing import APIRoute

from headrace.rest.console import connectors, pages
from headrace.rest.console.endpoints import Answer, Endpoints
from headrace.rest.console.forms import changes, config_in, form_of, restored
from headrace.rest.console.plots import amount, bar, plot, plots, short
from headrace.rest.console.stages import Field, stepped
from headrace.rest.console.troubles import next_start, of_connectors
from headrace.worker.model import ConnectorState, Health, State, Status
from tests.unit.rest.conftest import Worker
from tests.unit.rest.scripted import Named, scripted, serving
from tests.unit.rest.test_rights import rights_file

JDBC: Final = "io.confluent.connect.jdbc.JdbcSourceConnector"
SINK: Final = "io.confluent.connect.jdbc.JdbcSinkConnector"
HIDDEN: Final = "[hidden]"
SECRET: Final = "ToPs3cret-value"
EVIL: Final = '<script>alert("x")</script>\'/"><img src=x onerror=alert(1)>'
FILE: Final = {"connector.class": "FileStreamSource", "file": "f", "topic": "t", "tasks.max": "1"}


def post(client: httpx.Client, path: str, headers: Mapping[str, str] | None = None, **fields: str) -> httpx.Response:
    """Sends a form as a page of the console does."""
    own = {"origin": str(client.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
    return client.post(path, data=fields, headers=own if headers is None else headers)


@pytest.fixture
def files(worker: Worker) -> Iterator[httpx.Client]:
    """A client of a worker with a connector c, which goes afterwards with all others."""
    worker.client.put("/connectors/c/config", json=FILE)
    yield worker.client
    for name in worker.client.get("/connectors").json():
        worker.client.delete(f"/connectors/{quote(name, safe='')}")


PAGES: Final = (
    "/console/overview",
    "/console/new",
    "/console/new?plugin=FileStreamSink",
    f"/console/new?plugin={JDBC}",
    "/console/cluster",
    "/console/dead-letters",
    *(f"/console/connectors/c{page}" for page in ("", "/config", "/offsets", "/log", "/history", "/dead-letters")),
)


@pytest.mark.parametrize("path", PAGES)
def test_each_page_loads_nothing_from_elsewhere_and_runs_no_script_of_its_own(files: httpx.Client, path: str) -> None:
    answer = files.get(path)
    assert answer.status_code == 200, answer.text
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["cache-control"] == "no-store"
    assert "set-cookie" not in answer.headers
    assert not re.search(
        r"<script(?! src=\"/console/static)|<style|\sstyle=|\son\w+=|(?:src|href)=\"(?!/|#|\?)", answer.text
    )
    assert len(answer.content) < 200_000
    for used in re.findall(r"(?:src|href)=\"(/console/static/[^\"]+)", answer.text):
        assert files.get(used.replace("&amp;", "&")).status_code == 200


def test_the_root_leads_to_the_overview(files: httpx.Client) -> None:
    answer = files.get("/console")
    assert (answer.status_code, answer.headers["location"]) == (302, "/console/overview")


def test_what_is_not_there_is_told_by_a_page(files: httpx.Client) -> None:
    for path in ("/console/connectors/none", "/console/connectors/none/config", "/console/new?plugin=None"):
        answer = files.get(path)
        assert (answer.status_code, answer.headers["content-type"][:9]) == (404, "text/html"), path
    assert files.get("/console/static/..%2Fpage.py").status_code == 404


def test_a_connector_is_made_changed_and_deleted_by_forms(files: httpx.Client) -> None:
    form = {"plugin": "FileStreamSource", "name": "made", "c.file": "in.txt", "c.topic": "", "c.tasks.max": "1"}
    refused = post(files, "/console/new", **form, do="create")
    assert refused.status_code == 400
    assert "Missing required configuration &#34;topic&#34;" in refused.text
    assert 'value="in.txt"' in refused.text
    made = post(files, "/console/new", **{**form, "c.topic": "t"}, others="transforms=\n", do="create")
    assert (made.status_code, made.headers["location"]) == (303, "/console/connectors/made?done=created")
    assert "It is created." in files.get(made.headers["location"]).text
    page = "/console/connectors/made/config"
    checked = post(files, page, **{"c.topic": "other", "c.file": "in.txt", "c.tasks.max": "none"}, do="check")
    assert checked.status_code == 200
    assert re.search(r"\d faults? (is|are) in it", checked.text)
    assert "<td>t</td><td>other</td>" in checked.text
    saved = post(files, page, **{"c.topic": "other", "c.file": "", "c.tasks.max": "1"}, others="a\\ b=c", do="save")
    assert saved.headers["location"] == "/console/connectors/made?done=saved", saved.text
    config = files.get("/connectors/made/config").json()
    assert config == {
        "name": "made",
        "connector.class": "FileStreamSource",
        "topic": "other",
        "tasks.max": "1",
        "a b": "c",
    }
    gone = post(files, "/console/connectors/made/delete")
    assert gone.headers["location"] == "/console/overview?done=deleted"
    assert files.get("/connectors/made").status_code == 404


@pytest.mark.parametrize(
    ("action", "states"),
    [("pause", {"PAUSED"}), ("stop", {"STOPPED"}), ("restart", {"RUNNING"}), ("restart-failed", {"RUNNING"})],
)
def test_buttons_do_what_they_say(files: httpx.Client, action: str, states: set[str]) -> None:
    answer = post(files, f"/console/connectors/c/{action}")
    assert answer.status_code == 303, answer.text
    assert files.get(answer.headers["location"]).status_code == 200
    status = files.get("/connectors/c/status").json()
    assert status["connector"]["state"] in states | {"RESTARTING"}
    assert post(files, "/console/connectors/c/resume").status_code == 303
    assert post(files, "/console/connectors/c/tasks/0/restart").status_code in (303, 404)
    assert post(files, "/console/connectors/c/explode").status_code == 404


def test_offsets_are_set_and_reset_once_it_is_stopped(files: httpx.Client) -> None:
    page = "/console/connectors/c/offsets"
    fields = {"partition": '{"filename": "f"}', "before": '{"position": 34}', "offset": '{"position": 7}'}
    assert "Offsets can be changed while" in files.get(page).text
    assert post(files, page, **fields, do="alter").status_code == 400
    post(files, "/console/connectors/c/stop")
    assert post(files, page, **fields, do="alter").headers["location"].endswith("?done=offsets")
    assert files.get("/connectors/c/offsets").json()["offsets"][0]["offset"] == {"position": 7}
    assert (
        post(files, page, **{**fields, "offset": fields["before"]}, do="alter")
        .headers["location"]
        .endswith("unchanged")
    )
    wrong = post(files, page, **{**fields, "offset": "seven"}, do="alter")
    assert wrong.status_code == 400
    assert "JSON" in wrong.text
    assert post(files, page, do="reset", plugin="FileStreamSink").status_code == 303
    assert files.get("/connectors/c/offsets").json()["offsets"] == []


def test_nothing_that_somebody_named_is_markup(files: httpx.Client) -> None:
    config = {**FILE, "topic": EVIL, "file": f"/no-folder{EVIL}/f", EVIL: EVIL}
    files.post("/connectors", json={"name": EVIL, "config": config})
    name = quote(EVIL, safe="")
    paths = [*PAGES, *(f"/console/connectors/{name}{page}" for page in ("", "/config", "/offsets", "/history"))]
    paths += [f"/console/overview?find={name}&state={name}&done={name}", f"/console/new?plugin={name}"]
    for path in paths:
        text = files.get(path).text
        assert not re.search(r'<script>|<img|alert\("x"\)', text), path
    answer = post(files, f"/console/connectors/{name}/config", others=f"{EVIL}={EVIL}", do="check")
    assert "<script>" not in answer.text
    assert "<img" not in answer.text
    assert EVIL.partition("(")[0].replace("<", "&lt;").replace(">", "&gt;") in files.get("/console/overview").text


_LETTER: Final = {
    "topic": "dlq",
    "partition": 0,
    "offset": 7,
    "timestamp": 1,
    "task": 0,
    "stage": EVIL,
    "class": EVIL,
    "exception": EVIL,
    "message": EVIL,
    "cause": "c1",
    "replayed": True,
    "key": EVIL,
    "value": EVIL,
    "origin": {"topic": EVIL, "partition": 0, "offset": 3, "source_partition": None, "source_offset": None},
    "headers": [{"key": EVIL, "value": EVIL}],
}
_CAUSE: Final = {"cause": EVIL, "stage": EVIL, "exception": EVIL, "message": EVIL, "count": 3, "waiting": 2}
_STAGE: Final = {
    "stage": "transform",
    "name": EVIL,
    "applied": False,
    "topic": EVIL,
    "key": EVIL,
    "value": {EVIL: [EVIL]},
}
_RECORD: Final = {
    "topic": EVIL,
    "partition": 0,
    "offset": 1,
    "stages": [_STAGE],
    "filtered": EVIL,
    "effects": [{"action": EVIL, "target": EVIL, "detail": {EVIL: EVIL}}],
    "error": {"stage": EVIL, "class_name": EVIL, "message": EVIL, "outcome": "dead letter"},
    "differences": [{"path": EVIL, "before": EVIL, "after": None}],
}
_SERIES: Final = {name: [1.0, None, 3.0] for name in ("records_per_s", "bytes_per_s", "lag_records", "lag_s", "errors")}
_REVISION: Final = {
    "at": EVIL,
    "by": EVIL,
    "from": EVIL,
    "change": "config",
    "differences": {EVIL: {"before": EVIL, "after": None}},
}
ANSWERS: Final[Mapping[str, Any]] = {
    "/logs": {"lines": [{"worker": EVIL, "at": 1, "level": "ERROR", "text": EVIL}], "skipped": {EVIL: EVIL}},
    "/dead-letters": {"records": [_LETTER], "before": "0:7", "with_data": True},
    "/dead-letters/causes": {"looked_at": 3, "is_all": False, "causes": [_CAUSE]},
    "/history": [{"revision": 2, **_REVISION}, {"revision": 1, **_REVISION}],
    "/lint": {"findings": [{"rule": "r", "severity": "warning", "setting": EVIL, "message": EVIL, "advice": EVIL}]},
    "/preview": {"kind": "sink", "records": [_RECORD], "effects": _RECORD["effects"], "notes": [EVIL]},
    "/series": {
        "step_s": 10,
        "until": 1,
        "series": _SERIES,
        "skipped": {EVIL: EVIL},
        "connectors": {"c": {"lag_s": 1.0}},
    },
}
"""Answers of endpoints, with markup in everything that comes from outside."""


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """These endpoints answer like that; the rest of each path, and what was sent."""
    asked: list[tuple[str, str, Any]] = []
    real = Endpoints.ask

    async def ask(self: Endpoints, method: str, path: str, body: Any = None, **query: Any) -> Answer:
        for what in sorted(ANSWERS, key=len, reverse=True):
            if path.endswith(what):
                asked.append((method, what, body or query))
                return Answer(200, ANSWERS[what])
        if (method != "GET" and path.endswith(("/replay", "/rollback"))) or method == "DELETE":
            asked.append((method, path, body or query))
            return Answer(200, {"more": False})
        return await real(self, method, path, body, **query)

    monkeypatch.setattr(Endpoints, "ask", ask)
    return asked


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("overview", ["3/s", "is not among these"]),
        ("connectors/c", ["Records: 3/s now, at most 3/s"]),
        ("connectors/c/config", ["Lint", "warning"]),
        ("connectors/c/log", ["ERROR", "is not among these"]),
        ("connectors/c/history", ["Roll back to revision 1"]),
        ("connectors/c/dead-letters", ["Replay these", "Replay this one", "replayed", "before=0%3A7"]),
    ],
)
def test_what_endpoints_answer_is_shown_as_text(
    files: httpx.Client, answering: list[tuple[str, str, Any]], path: str, shown: list[str]
) -> None:
    text = files.get(f"/console/{path}").text
    assert [one for one in shown if one not in text] == []
    assert not re.search(r'<script>|<img|alert\("x"\)', text)
    assert answering


def test_forms_ask_for_what_they_say(files: httpx.Client, answering: list[tuple[str, str, Any]]) -> None:
    letters, deleted = "/console/connectors/c/dead-letters", ("DELETE", "/dead-letters", {"upto": "all"})
    sent = [
        (letters, {"do": "replay", "record": "0:7"}, "/replay", {"records": [{"partition": "0", "offset": "7"}]}),
        (letters, {"do": "replay", "cause": "c1"}, "/replay", {"cause": "c1"}),
        ("/console/connectors/c/history", {"revision": "1"}, "/rollback", {"revision": "1"}),
    ]
    for path, form, endpoint, body in sent:
        assert post(files, path, **form).status_code == 303
        assert (answering[-1][1].endswith(endpoint), answering[-1][2]) == (True, body)
    assert post(files, letters, do="delete").status_code == 303
    assert answering[-1] == deleted
    fields = {"c.topic": "t2", "c.file": "f", "c.tasks.max": "1"}
    text = post(files, "/console/connectors/c/config", **fields, do="preview").text
    assert ("POST", "/preview", {"topic": "t2"}) in answering
    assert "passed by: its predicate does not hold" in text
    assert not re.search(r"<script>|<img", text)


@pytest.mark.parametrize("masks", ["true", "false"])
def test_a_secret_is_on_no_page_and_is_kept(workers: Callable[..., Worker], tmp_path: Path, masks: str) -> None:
    client = workers(rest_mask_secrets=masks).client
    (tmp_path / "db").touch()
    config = {"connector.class": SINK, "connection.url": f"jdbc:sqlite:{tmp_path}/db", "topics": "t"}
    config |= {"connection.password": SECRET, "transforms": "", "my.api.secret": SECRET}
    assert client.put("/connectors/db/config", json=config).status_code == 201
    pages = [f"/console/connectors/db{page}" for page in ("", "/config", "/log", "/history")]
    for path in [*pages, "/console/overview", "/console/dead-letters"]:
        assert SECRET not in client.get(path).text, path
    fields = {f"c.{key}": value for key, value in config.items() if key in ("connection.url", "topics")}
    fields |= {
        "c.connection.password": "",
        "c.transforms": "",
        "others": f"my.api.secret={HIDDEN}",
        "c.batch.size": "9",
    }
    checked = post(client, "/console/connectors/db/config", **fields, do="check")
    assert SECRET not in checked.text
    assert "batch.size" in checked.text
    typed = post(client, "/console/connectors/db/config", **{**fields, "c.connection.password": "an0ther"}, do="check")
    assert "an0ther" not in typed.text
    assert f"<td>{HIDDEN}</td><td>{HIDDEN}</td>" in typed.text
    assert post(client, "/console/connectors/db/config", **fields, do="save").status_code == 303
    if masks == "false":
        assert client.get("/connectors/db/config").json() == {**config, "name": "db", "batch.size": "9"}
    removing = {**fields, "remove.connection.password": "1"}
    assert post(client, "/console/connectors/db/config", **removing, do="save").status_code == 303
    assert "connection.password" not in client.get("/connectors/db/config").json()


def test_typed_secrets_do_not_come_back(files: httpx.Client) -> None:
    form = {"plugin": JDBC, "name": "n", "c.connection.password": SECRET, "others": f"x.password={SECRET}"}
    for do in ("check", "preview", "create"):
        assert SECRET not in post(files, "/console/new", **form, do=do).text


FOREIGN: Final = (
    {},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1"},
)


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("allowed", ["", "*", "https://evil.example"])
def test_no_form_of_a_foreign_page_is_taken_even_if_its_origin_may_use_rest(
    workers: Callable[..., Worker], headers: Mapping[str, str], allowed: str
) -> None:
    client = _with_origin(workers, allowed)
    client.put("/connectors/c/config", json=FILE)
    for path in (
        "/console/connectors/c/pause",
        "/console/connectors/c/delete",
        "/console/cluster/drain",
        "/console/new",
    ):
        assert post(client, path, headers).status_code == 403, path
    assert client.get("/connectors/c/status").json()["connector"]["state"] == "RUNNING"


_ALLOWING: dict[str, httpx.Client] = {}


def _with_origin(workers: Callable[..., Worker], allowed: str) -> httpx.Client:
    if allowed not in _ALLOWING:
        _ALLOWING[allowed] = workers(**{"access.control.allow.origin": allowed}).client
    return _ALLOWING[allowed]


def test_foreign_hosts_are_refused(files: httpx.Client) -> None:
    assert files.get("/console/overview", headers={"host": "evil.example"}).status_code == 403


def test_every_change_is_a_form(files: httpx.Client) -> None:
    for router in (pages.router, connectors.router):
        for route in router.routes:
            assert isinstance(route, APIRoute)
            assert route.methods <= {"GET", "POST"}


def test_a_user_sees_and_may_do_what_rest_lets_him(workers: Callable[..., Worker], tmp_path: Path) -> None:
    running = workers()
    running.client.put("/connectors/c/config", json={**FILE, "file": "secret-place"})
    running.client.put("/connectors/other/config", json=FILE)
    rules = [("user:viewer", "c", "view"), ("user:operator", "c", "operate"), ("user:editor", "c", "edit")]
    file = rights_file(tmp_path, *rules, ("user:admin", "", "admin"))
    with serving(running.herder, {"rest.rights.file": file}, forwards=False, around=Named) as client:

        def page(user: str, path: str) -> str:
            return client.get(f"/console/{path}", headers={"x-user": user}).text

        def send(user: str, path: str) -> int:
            own = {"x-user": user, "origin": str(client.base_url).rstrip("/")}
            return post(client, f"/console/{path}", own, do="reset", plugin="FileStreamSink").status_code

        for user in ("viewer", "operator", "editor"):
            shown = page(user, "overview")
            assert ">c</a>" in shown
            assert ">other</a>" not in shown
            assert "lacks the right" in page(user, "connectors/other")
        assert "Pause" not in page("viewer", "connectors/c")
        assert "Delete" not in page("viewer", "connectors/c")
        assert "Pause" in page("operator", "connectors/c")
        assert "Delete" not in page("operator", "connectors/c")
        assert "Delete" in page("editor", "connectors/c")
        assert "secret-place" in page("editor", "connectors/c/config")
        assert "secret-place" not in page("operator", "connectors/c") + page("viewer", "connectors/c/config")
        assert "Drain" in page("admin", "cluster")
        assert "Drain" not in page("editor", "cluster")
        for path in ("connectors/c/pause", "connectors/c/delete", "connectors/c/config", "connectors/c/offsets", "new"):
            assert send("viewer", path) in (400, 403), path
        assert send("editor", "cluster/drain") == send("operator", "connectors/c/delete") == 403
        assert send("operator", "connectors/c/pause") == 303
    for name in ("c", "other"):
        running.client.delete(f"/connectors/{name}")


def test_the_overview_of_many_connectors_is_quick_and_small() -> None:
    def state(name: str) -> ConnectorState:
        own = Status(State.RUNNING, "here:8083")
        return ConnectorState(name, own, {0: own, 1: own}, "sink")

    names = [f"connector-{number:03}" for number in range(500)]
    script = {"connectors": names, "connector_state": state, "health": Health("healthy", ""), "kafka_away_seconds": 0}
    with serving(scripted({**script, "other_workers": []})) as client:

        def seconds() -> float:
            began = time.monotonic()
            answer = client.get("/console/overview")
            assert (answer.status_code, len(answer.content) < 100_000) == (200, True)
            return time.monotonic() - began

        assert min(seconds() for _ in range(10)) < 0.3  # of a busy machine the quickest
        second = client.get("/console/overview?first=100").text
        assert "101 to 200 of 500" in second
        assert "connector-100" in second
        found = client.get("/console/overview?find=connector-49&state=RUNNING").text
        assert found.count('scope="row"') == 10


def test_it_can_be_switched_off() -> None:
    with serving(scripted(), {"rest.console.enabled": False}) as client:
        for path in ("/console", "/console/overview", "/console/static/console.css"):
            answer = client.get(path)
            assert (answer.status_code, answer.json()["error_code"]) == (404, 404)


def test_a_browser_asks_for_a_password_below_the_console_only(workers: Callable[..., Worker], tmp_path: Path) -> None:
    users = tmp_path / "users.properties"
    users.write_text("anna=pw1\n", encoding="utf-8")
    users.chmod(0o600)
    client = workers(rest_basic_auth_users_file=str(users)).client
    asked = client.get("/console/overview")
    assert (asked.status_code, asked.headers["www-authenticate"][:5]) == (401, "Basic")
    assert client.get("/console").headers["location"] == "/console/overview"
    assert client.get("/console/static/console.css").status_code == 401
    for path in ("/connectors", "/", "/consoles"):
        answer = client.get(path)
        assert answer.status_code == 401
        assert "www-authenticate" not in answer.headers
    assert "anna" in client.get("/console/overview", auth=("anna", "pw1")).text


def test_a_change_is_audited_as_the_endpoint_that_makes_it(workers: Callable[..., Worker], tmp_path: Path) -> None:
    lines = tmp_path / "audit.log"
    client = workers(rest_audit_log="json", rest_audit_log_file=str(lines)).client
    client.put("/connectors/c/config", json=FILE)
    post(client, "/console/connectors/c/pause")
    assert '"path": "/connectors/c/pause"' in lines.read_text(encoding="utf-8").splitlines()[-1]


def test_a_failed_task_is_told_with_its_next_start() -> None:
    task = {
        "id": 0,
        "state": "FAILED",
        "worker_id": "w",
        "trace": "E: away\n  at x\nAttempt 2 of 5 at 10:00:00Z follows",
    }
    own = {"state": "RUNNING", "worker_id": "w"}
    found = list(of_connectors({"c": {"connector": own, "tasks": [task]}, "d": {"connector": own, "tasks": []}}))
    assert [(one.connector, one.text) for one in found] == [
        ("c", "Task 0 failed: E: away"),
        ("d", "It runs, and has no tasks."),
    ]
    assert found[0].advice == "Attempt 2 of 5 at 10:00:00Z follows"
    assert next_start("E: away") == ""


def test_a_plot_has_gaps_and_a_sentence() -> None:
    text = str(plot("Lag", [1.0, None, 2000.0, 3000.0], 900, " records"))
    assert (text.count("<polyline"), text.count("<polygon")) == (2, 2)
    assert 'aria-label="Lag: 3k records now, at most 3k records in 60 minutes"' in text
    assert "Lag: – now, at most 1 in 30 minutes" in str(plot("Lag", [1.0, None], 900))
    assert "&lt;" in str(plot("<", [1], 60))


def test_plots_span_what_is_known_and_ten_minutes_at_least() -> None:
    series = {"lag": [None] * 60, "rate": [None] * 30 + [1.0] * 30, "errors": [None] * 59 + [2.0]}
    what = [("rate", "Rate", "/s"), ("errors", "Errors", ""), ("lag", "Lag", ""), ("none", "None", "")]
    text = str(plots({"step_s": 60, "series": series}, what))
    assert text.count("<figure") == text.count("in 30 minutes") == 2
    assert "in 10 minutes" in str(plots({"step_s": 60, "series": series}, what[1:]))
    assert "Nothing has been measured" in str(plots({"step_s": 60, "series": series}, what[2:]))


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (None, "B/s", "–"),
        (0.0, "B/s", "0 B/s"),
        (999.7, "B/s", "1 kB/s"),
        (3_400_000.0, "B/s", "3.4 MB/s"),
        (1234.5, " records", "1.23k records"),
        (0.0, "s", "0 s"),
        (0.25, "s", "250 ms"),
        (59.9, "s", "1 min"),
        (89.0, "s", "1.5 min"),
        (5400.0, "s", "1.5 h"),
        (3_000_000.0, "s", "35 d"),
        (15_000_000.0, "s", "174 d"),
        (1500.0, "ms", "1.5 s"),
    ],
)
def test_an_amount_has_a_unit_that_reads_well(value: float | None, unit: str, told: str) -> None:
    assert amount(value, unit) == told


def test_a_bar_is_as_long_as_its_part() -> None:
    assert [re.findall(r"H(\d+)", str(bar(*one))) for one in ((1.0, 4.0), (None, 4.0), (0.0, 0.0))] == [
        ["25"],
        ["0"],
        ["0"],
    ]
    assert short(999_960) == "1M"


def test_stages_tell_what_became_of_each_field() -> None:
    read = {"stage": "fetched", "topic": "t", "key": None, "value": "{…}", "headers": [{"key": "h", "value": "1"}]}
    converted = {**read, "stage": "converted", "value": {"id": 1, "card": "49", "total": 2.5}}
    changed = {**converted, "headers": [], "topic": "u", "value": {"id": 1, "card": "", "amount": 2.5}}
    written = {**changed, "value": '{"id":1}', "key": "1"}
    shown = [
        {part.label: [*part.fields] for part in parts} for _, parts in stepped([read, converted, changed, written])
    ]
    assert [*shown[0]] == ["topic", "key", "value", "header h"]
    assert shown[1] == {"key": [Field("", None)], "value": [Field("id", 1), Field("card", "49"), Field("total", 2.5)]}
    assert shown[2] == {
        "topic": [Field("", "u", "changed")],
        "key": [Field("", None)],
        "value": [
            Field("id", 1),
            Field("card", "", "changed", "49"),
            Field("amount", 2.5, "new"),
            Field("total", None, "gone", 2.5),
        ],
        "header h": [Field("", None, "gone", "1")],
    }
    assert shown[3] == {"key": [Field("", "1", "changed")], "value": [Field("", '{"id":1}', "changed")]}


def test_a_form_s_empty_fields_are_no_settings() -> None:
    shown = {"a": "1", "gone": "2", "empty": "", "pin": HIDDEN, "more": "x\ny"}
    sent = [
        ("c.a", "9"),
        ("c.gone", ""),
        ("c.empty", ""),
        ("c.pin", ""),
        ("c.more", "x\nz"),
        ("others", "q=1\\n2"),
        ("do", "save"),
    ]
    wanted = config_in(sent, shown)
    assert wanted == {"a": "9", "empty": "", "pin": HIDDEN, "more": "x\nz", "q": "1\n2"}
    assert changes(shown, wanted) == {"a": "9", "more": "x\nz", "q": "1\n2", "gone": None}
    assert restored(wanted, {"pin": "1234"})["pin"] == "1234"


def test_a_form_without_declarations_has_all_settings_as_lines() -> None:
    form = form_of({"b": "1", "a": "x\ny"}, None, told=True)
    assert (form.groups, form.others) == ([], "a=x\\ny\nb=1\n")
