"""The endpoints of the distributed worker over a scripted herder: what each makes of its request."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from headrace.rest.routes import connectors
from headrace.worker.errors import NotFound, Starting
from headrace.worker.logging import logs
from headrace.worker.model import ConnectorInfo, Health, Signed, TaskId, TaskInfo
from tests.unit.rest.scripted import scripted, serving

JSON = {"Content-Type": "application/json"}
SIGNED = {
    **JSON,
    "X-Connect-Authorization": "c2ln",
    "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
}


def refused(answer: httpx.Response, status: int) -> str:
    assert (answer.status_code, answer.json()["error_code"]) == (status, status), answer.text
    message: str = answer.json()["message"]
    return message


def test_task_configs_reach_the_herder_with_the_raw_body_and_its_signature() -> None:
    herder = scripted()
    body = b'[ {"a": "1", "b": null}, {"c": 2.50} ]'
    with serving(herder) as client:
        answer = client.post("/connectors/a%2Fb/tasks", content=body, headers=SIGNED)
        unsigned = client.post("/connectors/c/tasks", content=b"[]", headers=JSON)
    assert (answer.status_code, answer.content, unsigned.status_code) == (204, b"", 204)
    assert herder.asked == [
        ("put_task_configs", "a/b", [{"a": "1", "b": None}, {"c": "2.50"}], Signed(body, "c2ln", "HmacSHA256")),
        ("put_task_configs", "c", [], Signed(b"", None, None)),
    ]


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b"[1]", b'[{"a":{}}]'])
def test_task_configs_that_are_none_are_refused(body: bytes) -> None:
    herder = scripted()
    with serving(herder) as client:
        assert refused(client.post("/connectors/c/tasks", content=body, headers=SIGNED), 400)
    assert herder.asked == []


def test_fencing_is_asked_with_the_signature_of_nothing() -> None:
    herder = scripted()
    with serving(herder) as client:
        assert client.put("/connectors/c/fence", headers=SIGNED).status_code == 204
    assert herder.asked == [("fence_zombies", "c", Signed(b"", "c2ln", "HmacSHA256"))]


def test_offsets_are_altered_and_reset() -> None:
    herder = scripted({"alter_offsets": "altered", "reset_offsets": "reset"})
    wanted = [
        {"partition": {"kafka_topic": "t", "kafka_partition": 0}, "offset": {"kafka_offset": "7"}},
        {"partition": {"f": 1.5, "big": 2**70, "flag": True}, "offset": None},
        {"partition": {}},
    ]
    with serving(herder) as client:
        altered = client.patch("/connectors/a%2Fb/offsets", json={"offsets": wanted})
        reset = client.delete("/connectors/c/offsets")
    assert (altered.status_code, altered.json(), reset.json()) == (200, {"message": "altered"}, {"message": "reset"})
    pairs = [(one["partition"], one.get("offset")) for one in wanted]
    assert herder.asked == [("alter_offsets", "a/b", pairs), ("reset_offsets", "c")]


@pytest.mark.parametrize(
    ("time", "ms"),
    [
        ("2026-11-28T17:00:00Z", 1_795_885_200_000),
        ("2026-11-28T17:00", 1_795_885_200_000),
        ("2026-11-28T18:00:00.250%2B01:00", 1_795_885_200_250),
    ],
)
def test_offsets_at_a_time_are_told(time: str, ms: int) -> None:
    herder = scripted({"offsets_at": [({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7})]})
    with serving(herder) as client:
        answer = client.get(f"/connectors/c/offsets/at?time={time}")
    assert answer.json()["offsets"][0]["offset"] == {"kafka_offset": 7}
    assert herder.asked == [("offsets_at", "c", ms)]


@pytest.mark.parametrize("query", ["", "?time=", "?time=now", "?time=2026-13-01", "?time=0001-01-01T00:00%2B14:00"])
def test_a_time_that_is_none_is_refused(query: str) -> None:
    with serving(scripted()) as client:
        assert "ISO 8601" in refused(client.get(f"/connectors/c/offsets/at{query}"), 400)


@pytest.mark.parametrize("body", [{}, {"offsets": None}, {"offsets": []}])
def test_offsets_need_to_be_given(body: Any) -> None:
    with serving(scripted()) as client:
        message = refused(client.patch("/connectors/c/offsets", json=body), 400)
    assert message == "Partitions / offsets need to be provided for an alter offsets request"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'{"offsets":{}}',
        b'{"offsets":[1]}',
        b'{"offsets":[{"partition":[],"offset":{}}]}',
        b'{"offsets":[{"partition":{},"offset":5}]}',
        b'{"offsets":[{"offset":{}}]}',
        b'{"offsets":[{"partition":{},"ofset":{}}]}',
        b'{"offsets":[{"partition":{},"offset":{"position":1e999}}]}',
        b'{"offsets":[{"partition":{}}],"more":1}',
    ],
)
def test_offsets_of_another_shape_are_refused(body: bytes) -> None:
    herder = scripted()
    with serving(herder) as client:
        assert refused(client.patch("/connectors/c/offsets", content=body, headers=JSON), 400)
    assert herder.asked == []


def test_a_level_for_the_cluster_is_the_herder_s_and_for_the_worker_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[tuple[str, str]] = []
    monkeypatch.setattr(logs, "set_level", lambda name, level: here.append((name, level)) or [name])
    herder = scripted()
    with serving(herder) as client:
        assert client.put("/admin/loggers/a.b?scope=CLUSTER", json={"level": "debug"}).content == b""
        assert (herder.asked, here) == ([("set_cluster_level", "a.b", "DEBUG")], [])
        for scope in ("", "?scope=worker", "?scope=galaxy"):
            assert client.put(f"/admin/loggers/a.b{scope}", json={"level": "INFO"}).json() == ["a.b"]
        assert here == [("a.b", "INFO")] * 3
        assert refused(client.put("/admin/loggers/a.b?scope=cluster", json={"level": "LOUD"}), 404)
    assert len(herder.asked) == 1


def test_a_worker_that_does_not_know_its_connectors_yet_says_nothing_of_them() -> None:
    """After `[]` or "not found", tools would create existing connectors again, or take them for deleted."""
    herder = scripted({"check_known": Starting("not read yet"), "health": Health("starting", "")})
    herder.plugins.infos = lambda _: []
    with serving(herder) as client:
        asked = [
            (method, route.path_format.format(name="c", task=0))
            for route in connectors.router.routes
            if isinstance(route, APIRoute)
            for method in route.methods
        ]
        for method, path in asked:
            answer = client.request(method, path, json={}, headers=SIGNED)
            assert (method, path, refused(answer, 503)) == (method, path, "not read yet")
        assert len(asked) > 20
        assert herder.asked == []
        known = [client.get(path).status_code for path in ("/", "/health", "/connector-plugins", "/admin/loggers")]
        assert known == [200, 503, 200, 200]


def test_draining_is_under_way_at_once() -> None:
    herder = scripted()
    with serving(herder) as client:
        assert client.put("/admin/drain").status_code == 202
    assert herder.asked == [("drain",)]


def test_admin_is_on_its_own_listeners_only_where_it_has_some() -> None:
    own = {"admin.listeners": ["http://127.0.0.1:0"]}
    with serving(scripted({"connectors": []}), own) as main, serving(scripted(), own, admin=True) as admin:
        assert refused(main.get("/admin/loggers"), 404) == "HTTP 404 Not Found"
        assert main.get("/connectors").status_code == admin.get("/admin/loggers").status_code == 200
        assert refused(admin.get("/connectors"), 404)
        assert refused(admin.get("/"), 404)
    with serving(scripted(), {"admin.listeners": []}) as main:
        assert refused(main.put("/admin/drain"), 404)


@pytest.mark.parametrize(
    "accept",
    ["application/json", "*/*", "application/*;q=0.1", "text/html, */*; q=.2", "application/json; charset=UTF-8", ""],
)
def test_what_takes_json_is_answered(accept: str) -> None:
    with serving(scripted({"connectors": ["c"]})) as client:
        assert client.get("/connectors", headers={"Accept": accept}).json() == ["c"]


@pytest.mark.parametrize("accept", ["text/html", "text/plain, application/xml", "application/json;q=0", "nonsense"])
def test_what_does_not_is_told(accept: str) -> None:
    herder = scripted()
    with serving(herder) as client:
        for method, path in [("GET", "/"), ("DELETE", "/connectors/c"), ("GET", "/admin/loggers")]:
            answer = client.request(method, path, headers={"Accept": accept})
            assert refused(answer, 406) == "HTTP 406 Not Acceptable"
    assert herder.asked == []


def test_a_number_that_no_task_can_have_is_no_path() -> None:
    with serving(scripted()) as client:
        assert refused(client.get(f"/connectors/c/tasks/{'9' * 5000}/status"), 404) == "HTTP 404 Not Found"


KNOWN = {"connector.class": "Known", "name": "c", "pin": "1234", "x.password": "p", "secret.count": "3", "file": "f"}
SHOWN = {**KNOWN, "pin": "[hidden]", "x.password": "[hidden]"}


@pytest.fixture
def secretive() -> Any:
    info = ConnectorInfo("c", KNOWN, [], "sink")
    herder = scripted({"connectors": ["c"], "connector_info": info, "configure": (False, info), "patch": info})
    herder.script["task_infos"] = [TaskInfo(TaskId("c", 0), {"pin": "1234", "task.class": "T"})]
    return herder


def test_secrets_are_hidden_in_every_answer(secretive: Any) -> None:
    with serving(secretive, {"rest.mask.secrets": True}) as client:
        assert client.get("/connectors/c/config").json() == SHOWN
        assert client.get("/connectors/c").json()["config"] == SHOWN
        assert client.get("/connectors?expand=info").json()["c"]["info"]["config"] == SHOWN
        assert client.get("/connectors/c/tasks").json()[0]["config"] == {"pin": "[hidden]", "task.class": "T"}
        assert client.put("/connectors/c/config", json=KNOWN).json()["config"] == SHOWN
        assert client.patch("/connectors/c/config", json={"file": "g"}).json()["config"] == SHOWN
    with serving(secretive) as client:
        assert client.get("/connectors/c/config").json() == KNOWN


def test_a_hidden_value_that_is_put_back_is_kept(secretive: Any) -> None:
    with serving(secretive, {"rest.mask.secrets": True}) as client:
        client.put("/connectors/c/config", json={**SHOWN, "file": "g"})
        client.patch("/connectors/c/config", json={"pin": "[hidden]", "x.password": "new"})
    changes = [call for call in secretive.asked if call[0] in ("configure", "patch")]
    assert changes == [
        ("configure", "c", {**KNOWN, "file": "g"}),
        ("patch", "c", {"pin": "1234", "x.password": "new"}),
    ]


def test_a_hidden_value_that_there_is_none_to_keep_for_is_refused(secretive: Any) -> None:
    with serving(secretive, {"rest.mask.secrets": True}) as client:
        said = refused(client.put("/connectors/c/config", json={**SHOWN, "y.password": "[hidden]"}), 400)
        assert said.startswith("y.password: [hidden]")
        secretive.script["connector_info"] = NotFound("Connector d not found")
        assert refused(client.put("/connectors/d/config", json=SHOWN), 400)
        assert refused(client.post("/connectors", json={"name": "d", "config": {"pin": "[hidden]"}}), 400)
    assert not [call for call in secretive.asked if call[0] in ("configure", "create")]


def test_unmasked_the_text_is_a_value_as_any_other(secretive: Any) -> None:
    with serving(secretive) as client:
        client.put("/connectors/c/config", json=SHOWN)
    assert secretive.asked[-1] == ("configure", "c", SHOWN)


def test_every_route_is_in_the_document_with_what_it_takes_and_answers() -> None:
    with serving(scripted()) as client:
        document = client.get("/openapi.json").json()
        page = client.get("/docs", headers={"Accept": "text/html"})
    operations = {f"{m.upper()} {path}": one for path, all_ in document["paths"].items() for m, one in all_.items()}
    assert len(operations) >= 32
    assert all(set(one["responses"]) > {"default"} for one in operations.values())
    create = operations["POST /connectors"]
    assert create["requestBody"]["content"]["application/json"]["schema"]["required"] == ["config"]
    assert {"201", "default"} == set(create["responses"])
    restart = operations["POST /connectors/{name}/restart"]
    assert {(one["name"], one["in"]) for one in restart["parameters"]} == {
        ("name", "path"),
        ("includeTasks", "query"),
        ("onlyFailed", "query"),
    }
    assert all("422" not in one["responses"] for one in operations.values())
    bodies = {what for what, one in operations.items() if "requestBody" in one}
    assert bodies == {
        "POST /connectors",
        "PUT /connectors/{name}/config",
        "PATCH /connectors/{name}/config",
        "PATCH /connectors/{name}/offsets",
        "POST /connectors/{name}/rollback",
        "POST /connectors/{name}/tasks",
        "PUT /connector-plugins/{plugin}/config/validate",
        "PUT /connector-plugins/{plugin}/config/preview",
        "POST /connectors/{name}/preview",
        "POST /connectors/{name}/dead-letters/replay",
        "PUT /connector-plugins/{plugin}/config/lint",
        "PUT /admin/loggers/{name}",
    }
    assert page.headers["content-type"].startswith("text/html")
    assert all(path in page.text for path in document["paths"])
    assert "<script" not in page.text
    assert "://" not in page.text
