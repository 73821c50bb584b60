"""The API as clients of Connect rely on it: paths, methods, bodies, error shapes, headers and the access log."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from headrace.worker.errors import ConnectError
from headrace.worker.model import State, TaskId

ACCESS = "org.apache.kafka.connect.runtime.rest.RestServer"
JSON = {"content-type": "application/json"}
FILE = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": "t"}


@pytest.fixture
def client(worker: Any) -> Iterator[httpx.Client]:
    yield worker.client
    for name in worker.herder.connectors():
        worker.herder.delete(name)


def refused(answer: httpx.Response, status: int) -> str:
    """The message of an error in Connect's shape."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert list(body) == ["error_code", "message"]
    assert body["error_code"] == status
    message = body["message"]
    assert isinstance(message, str)
    return message


def until(condition: Callable[[], Any]) -> None:
    """Wait for what the server does after it answered, such as its log lines."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.005)


def test_the_root_says_versions_and_cluster_compactly(client: httpx.Client) -> None:
    answer = client.get("/")
    assert answer.text == '{"version":"4.3.1","commit":"unknown","kafka_cluster_id":"cluster-1"}'
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "path", ["/connectors/", "/connectors//", "/connector-plugins/", "/admin/loggers/", "/health/"]
)
def test_a_slash_at_the_end_changes_nothing(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("name", "segment"),
    [("a/b", "a%2Fb"), ("a->b", "a-%3Eb"), ("a b%2F", "a%20b%252F"), ("größe", "gr%C3%B6%C3%9Fe"), ("a+b", "a+b")],
)
def test_any_name_is_created_found_and_deleted(client: httpx.Client, name: str, segment: str) -> None:
    answer = client.post("/connectors/", json={"name": name, "config": FILE})
    assert answer.status_code == 201
    assert answer.headers["location"] == str(client.base_url).rstrip("/") + f"/connectors/{segment}"
    assert client.get(answer.headers["location"]).json()["name"] == name
    assert client.get(f"/connectors/{segment}/config/").json() == {**FILE, "name": name}
    assert client.get(f"/connectors/{segment}/topics").json() == {name: {"topics": []}}
    assert client.delete(f"/connectors/{segment}").status_code == 204
    assert client.get("/connectors").json() == []


def asked_to_create(client: httpx.Client, name: str, config: dict[str, str]) -> list[httpx.Response]:
    """The answers to all requests that create a connector."""
    path = f"/connectors/{quote(name, safe='')}/config"
    return [
        client.post("/connectors", json={"name": name, "config": config}),
        client.post("/connectors", json={"name": name, "config": {**config, "name": name}}),
        client.put(path, json=config),
    ]


@pytest.mark.parametrize("name", [" a", "a ", "\ta", "a\n", "\u00a0a", "a\u2003", "\ufeffa", "a\u200b", "\u00a0"])
def test_a_name_with_blanks_at_its_ends_is_refused(client: httpx.Client, name: str) -> None:
    for answer in asked_to_create(client, name, FILE):
        assert "String may not begin or end with blanks" in refused(answer, 400)
    judged = client.put("/connector-plugins/FileStreamSource/config/validate", json={**FILE, "name": name}).json()
    assert judged["error_count"] == 1
    assert client.get("/connectors").json() == []


@pytest.mark.parametrize("name", ["a\u2028b", "a\u202eb", "a\u0085b", "a\x7fb", "a\rb"])
def test_a_name_with_control_characters_is_refused(client: httpx.Client, name: str) -> None:
    for answer in asked_to_create(client, name, FILE):
        assert "String may not contain control sequences" in refused(answer, 400)


@pytest.mark.parametrize("blanks", [" {}", "{} ", "{}\t", "\u00a0{}"])
def test_a_class_with_blanks_around_it_is_refused(client: httpx.Client, blanks: str) -> None:
    config = {**FILE, "connector.class": blanks.format("FileStreamSource")}
    for answer in asked_to_create(client, "c", config):
        message = refused(answer, 400)
        assert "It has blanks around it" in message
        assert "Did you mean org.apache.kafka.connect.file.FileStreamSourceConnector?" in message
    assert client.get("/connectors").json() == []


def test_more_tasks_than_the_worker_allows_are_refused(workers: Callable[..., Any]) -> None:
    client = workers(tasks_max_limit="7").client
    for answer in asked_to_create(client, "c", {**FILE, "tasks.max": "20000000"}):
        wrong = "Invalid value 20000000 for configuration tasks.max: Value must be no more than 7 (tasks.max.limit of"
        assert wrong in refused(answer, 400)
    assert client.put("/connectors/c/config", json={**FILE, "tasks.max": "7"}).status_code == 201


def test_settings_that_nothing_reads_are_told_in_a_header(client: httpx.Client) -> None:
    told = "tpoic: did you mean topic?; x\\u2028\\r\\n: nothing has a setting of this name"
    given = {**FILE, "tpoic": "secret", "x\u2028\r\n": "1"}
    answers = [
        client.put("/connector-plugins/FileStreamSource/config/validate", json=given),
        client.post("/connectors", json={"name": "c", "config": given}),
        client.put("/connectors/c/config", json=given),
        client.patch("/connectors/c/config", json={"topic": "u"}),
    ]
    assert [answer.headers.get("X-Headrace-Unread") for answer in answers] == [told] * 4
    assert [answer.status_code for answer in answers] == [200, 201, 200, 200]
    known = client.put("/connectors/c/config", json=FILE)
    assert "X-Headrace-Unread" not in {**known.headers, **client.get("/connectors/c").headers}


def test_head_has_the_headers_of_get_and_no_body(client: httpx.Client) -> None:
    head, get = client.head("/connector-plugins"), client.get("/connector-plugins")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"] == str(len(get.content))
    assert client.head("/nope").status_code == 404


def test_a_wrong_method_is_told_the_right_ones(client: httpx.Client) -> None:
    answer = client.post("/connectors/c/config", json={})
    assert refused(answer, 405) == "HTTP 405 Method Not Allowed"
    assert answer.headers["allow"] == "GET,HEAD,OPTIONS,PATCH,PUT"
    options = client.options("/connectors/c/pause")
    assert (options.status_code, options.headers["allow"], options.content) == (200, "OPTIONS,PUT", b"")


@pytest.mark.parametrize("path", ["/nope", "/connectors/c/nope", "/connectors/c/tasks/x/status", "/redoc"])
def test_unknown_paths(client: httpx.Client, path: str) -> None:
    assert refused(client.get(path), 404) == "HTTP 404 Not Found"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b'"{\\"name\\":\\"x\\"}"',
        b"[1]",
        b"\xff\xfe\x00",
        b'{"name":"x","config":{"a":NaN}}',
        b'{"name":"x","config":{"a":"\\ud800"}}',
        b'{"name":"x","config":{"a":{"b":1}}}',
        b'{"name":"x","config":["a"]}',
        b"[" * 100_000,
    ],
)
def test_a_body_that_is_no_request_is_refused_and_harms_nothing(client: httpx.Client, body: bytes) -> None:
    assert refused(client.post("/connectors", content=body, headers=JSON), 400)
    assert client.get("/connectors").json() == []


def test_bodies_are_json_and_say_so(client: httpx.Client) -> None:
    text = json.dumps({**FILE, "batch.size": 5})
    unsaid = client.put("/connectors/c/config", content=text)
    assert unsaid.request.headers.get("content-type") is None
    assert refused(unsaid, 415) == "HTTP 415 Unsupported Media Type"
    assert client.get("/connectors").json() == []
    utf8 = {"content-type": "application/json; charset=UTF-8"}
    answer = client.put("/connectors/c/config", content=text, headers=utf8)
    assert answer.status_code == 201
    assert answer.json()["config"]["batch.size"] == "5"


@pytest.mark.parametrize("media", ["text/plain", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded"])
def test_what_a_web_page_may_send_to_any_site_changes_nothing(client: httpx.Client, media: str) -> None:
    client.put("/connectors/c/config", json=FILE)
    text = json.dumps({"name": "d", "config": FILE})
    headers = {"content-type": media}
    assert refused(client.post("/connectors", content=text, headers=headers), 415)
    assert refused(client.put("/connectors/c/pause", headers=headers), 415)
    assert refused(client.delete("/connectors/c", headers=headers), 415)
    assert client.get("/connectors", headers=headers).json() == ["c"]
    assert client.put("/connectors/c/pause").status_code == 202  # without body and type, as curl -X PUT sends it


def test_python_s_booleans_are_understood(client: httpx.Client) -> None:
    client.put("/connectors/c/config", json=FILE)
    assert client.post("/connectors/c/restart?includeTasks=False&onlyFailed=False").status_code == 204
    answer = client.post("/connectors/c/restart?includeTasks=True&onlyFailed=banana")
    assert answer.status_code == 202
    body = answer.json()
    assert list(body) == ["name", "connector", "tasks", "type"]
    assert [body["connector"]["state"], body["tasks"][0]["state"]] == ["RESTARTING", "RESTARTING"]
    assert len(client.get("/connector-plugins?connectorsOnly=FALSE").json()) > len(
        client.get("/connector-plugins").json()
    )


def test_the_members_of_a_status_are_in_order_and_texts(client: httpx.Client, worker: Any) -> None:
    client.put("/connectors/c/config", json=FILE)
    worker.tasks.running[TaskId("c", 0)](State.FAILED, "boom")
    body = client.get("/connectors/c/status").json()
    assert list(body["tasks"][0]) == ["id", "state", "worker_id", "version", "trace"]
    assert all(isinstance(value, str) for value in body["connector"].values())
    assert body["connector"]["worker_id"] == f"127.0.0.1:{worker.server.bound[0].port}"


def test_secrets_are_given_to_clients_and_kept_from_logs(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    secret = {**FILE, "producer.override.sasl.jaas.config": "hunter2"}
    with caplog.at_level(logging.DEBUG):
        client.put("/connectors/c/config", json={**secret, "topic": ""})
        client.put("/connectors/c/config", json=secret)
        read = client.get("/connectors/c/config").json()
        assert client.put("/connectors/c/config", json=read).status_code == 200
        message = refused(client.put("/connectors/d/config", json={"sasl.password": "hunter2"}), 400)
    assert read["producer.override.sasl.jaas.config"] == "hunter2"
    assert "hunter2" not in caplog.text
    assert message == "Connector config {name=d, sasl.password=[hidden]} contains no connector type"


def test_an_unexpected_error_is_answered_by_its_kind_only(
    client: httpx.Client, worker: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> list[str]:
        raise KeyError("s3cret")

    monkeypatch.setattr(worker.herder, "connectors", broken)
    message = refused(client.get("/connectors"), 500)
    monkeypatch.undo()
    assert message == "Internal error (KeyError) in GET /connectors; see the worker's log."
    until(lambda: "s3cret" in caplog.text)


def test_an_error_with_an_unexpected_cause_is_logged_once_with_its_trace(
    client: httpx.Client, worker: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> list[str]:
        try:
            raise KeyError("boom")
        except KeyError as error:
            raise ConnectError("cannot list") from error

    monkeypatch.setattr(worker.herder, "connectors", broken)
    assert refused(client.get("/connectors"), 500) == "cannot list"
    monkeypatch.undo()
    (line,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert line.message.startswith("GET /connectors answered with 500: ")
    assert "KeyError: 'boom'" in line.message


def test_every_request_is_in_the_access_log(client: httpx.Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        client.get("/connectors/a%2Fb?x=1", headers={"user-agent": "test"})
        until(lambda: any(one.name == ACCESS and "a%2Fb" in one.message for one in caplog.records))
    lines = [one.message for one in caplog.records if one.name == ACCESS and "a%2Fb" in one.message]
    assert len(lines) == 1
    assert lines[0].startswith("127.0.0.1 - - [")
    assert '] "GET /connectors/a%2Fb?x=1 HTTP/1.1" 404 ' in lines[0]
    assert ' "-" "test" ' in lines[0]


def test_requests_that_only_read_are_quiet(workers: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    client = workers(rest_access_log="changes").client
    with caplog.at_level(logging.INFO):
        client.get("/connectors")
        client.put("/connectors/none/pause", json={})
        until(lambda: any(one.name == ACCESS for one in caplog.records))
    (line,) = [one.message for one in caplog.records if one.name == ACCESS]
    assert '"PUT /connectors/none/pause' in line


def test_headers_and_cors_come_from_the_settings(workers: Callable[..., Any]) -> None:
    other = workers(
        access_control_allow_origin="http://ui.example,http://b.example",
        access_control_allow_methods="GET,PUT",
        response_http_headers_config='add Cache-Control: no-cache, "set X-Both: a, b", setDate Expires: 60000',
    ).client
    plain = other.get("/nope")
    assert (plain.headers["cache-control"], plain.headers["x-both"]) == ("no-cache", "a, b")
    assert plain.headers["expires"].endswith("GMT")
    assert "access-control-allow-origin" not in plain.headers
    allowed = other.get("/", headers={"Origin": "http://ui.example"})
    assert allowed.headers["access-control-allow-origin"] == "http://ui.example"
    preflight = {"Origin": "http://b.example", "Access-Control-Request-Method": "PUT"}
    answer = other.options("/connectors/c/pause", headers=preflight)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-methods"] == "GET, PUT"


def test_no_cors_unless_asked_for(client: httpx.Client) -> None:
    assert "access-control-allow-origin" not in client.get("/", headers={"Origin": "http://ui.example"}).headers


def test_many_at_once_create_one(client: httpx.Client) -> None:
    def create(_: int) -> int:
        return client.post("/connectors", json={"name": "c", "config": FILE}).status_code

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(create, range(8)))
    assert answers == [201] + [409] * 7
