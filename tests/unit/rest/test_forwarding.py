"""Requests that another worker decides: who is asked, what goes over the wire, and what the client hears."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from headrace.config.worker.listeners import Listener
from headrace.rest.server import HttpServer
from headrace.worker.errors import BadRequest, Elsewhere
from headrace.worker.model import ConnectorInfo
from tests.unit.rest.scripted import scripted, serving

CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
INFO = ConnectorInfo("a/b", {"name": "a/b"}, [], "source")


class Recorder:
    """A server that notes requests as they arrive and answers as it is told."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.status, self.body, self.headers = 200, b'{"ok":true}', [(b"content-type", b"application/json")]
        self.server = HttpServer([Listener("http", "127.0.0.1", 0)])
        self.server.start(self)
        self.url = f"{self.server.bound[0]}/"

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.seen.append({**scope, "headers": dict(scope["headers"]), "body": body})
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await send({"type": "http.response.body", "body": self.body})


@pytest.fixture
def leader() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.server.stop()


def test_a_request_goes_on_as_it_came_and_only_authorization_with_it(leader: Recorder) -> None:
    herder = scripted({"configure": Elsewhere(leader.url)})
    body = b'{ "n": 1.50, "gr\xc3\xb6\xc3\x9fe": "x" }'
    headers = {"Authorization": "Basic eDp5", "Cookie": "a=b", "X-Other": "c", "Accept": "*/*"}
    headers["Content-Type"] = "application/json; charset=utf-8"
    with serving(herder) as client:
        answer = client.put("/connectors/a%2Fb%20c%25/config?x=%2F&y=1", content=body, headers=headers)
    seen = leader.seen[0]
    assert (seen["method"], seen["raw_path"], seen["query_string"]) == (
        "PUT",
        b"/connectors/a%2Fb%20c%25/config",
        b"x=%2F&y=1&forward=true",
    )
    assert seen["body"] == body
    assert seen["headers"][b"authorization"] == b"Basic eDp5"
    assert seen["headers"][b"content-type"] == seen["headers"][b"accept"] == b"application/json"
    assert seen["headers"][b"user-agent"] == b"kafka-connect"
    assert not {b"cookie", b"x-other"} & set(seen["headers"])
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (
        200,
        b'{"ok":true}',
        "application/json",
    )


def test_a_request_without_body_goes_on_without_one(leader: Recorder) -> None:
    leader.status, leader.body, leader.headers = 204, b"", []
    with serving(scripted({"stop_connector": Elsewhere(leader.url)})) as client:
        answer = client.put("/connectors/c/stop")
    assert (answer.status_code, answer.content) == (204, b"")
    assert "content-type" not in answer.headers
    assert leader.seen[0]["body"] == b""
    assert b"content-type" not in leader.seen[0]["headers"]


@pytest.mark.parametrize(("asked", "sent"), [("", b"forward=true"), ("?forward=True", b"forward=false")])
def test_there_are_two_hops_at_most(leader: Recorder, asked: str, sent: bytes) -> None:
    with serving(scripted({"delete": Elsewhere(leader.url)})) as client:
        client.delete(f"/connectors/c{asked}")
        assert leader.seen[0]["query_string"] == sent
        last = client.delete("/connectors/c?forward=false")
    assert (last.status_code, last.json()) == (409, {"error_code": 409, "message": CONFLICT})
    assert len(leader.seen) == 1


def test_workers_that_take_each_other_for_the_leader_end_in_a_conflict() -> None:
    first, second = scripted(), scripted()
    with serving(first) as one, serving(second) as two:
        first.script["delete"] = Elsewhere(f"{two.base_url}/")
        second.script["delete"] = Elsewhere(f"{one.base_url}/")
        answer = one.delete("/connectors/c")
    assert (answer.status_code, answer.json()["message"]) == (409, CONFLICT)
    assert (len(first.asked), len(second.asked)) == (2, 1)


def test_no_known_leader_is_a_conflict_in_connect_s_words() -> None:
    with serving(scripted({"delete": Elsewhere(None)})) as client:
        answer = client.delete("/connectors/c")
    assert answer.json() == {
        "error_code": 409,
        "message": "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was "
        "underway.",
    }


def test_the_settings_that_nothing_reads_are_told_on(leader: Recorder) -> None:
    leader.headers = [(b"x-headrace-unread", b"fil: did you mean file?"), (b"x-other", b"1")]
    with serving(scripted({"configure": Elsewhere(leader.url)})) as client:
        answer = client.put("/connectors/c/config", json={"fil": "x"})
    assert answer.headers["X-Headrace-Unread"] == "fil: did you mean file?"
    assert "x-other" not in answer.headers


def test_the_location_names_the_worker_that_was_asked() -> None:
    with (
        serving(scripted({"create": INFO})) as leading,
        serving(scripted({"create": Elsewhere(f"{leading.base_url}/")})) as client,
    ):
        answer = client.post("/connectors", json={"name": "a/b", "config": {"a": "b"}})
        assert answer.status_code == 201
        assert answer.json()["name"] == "a/b"
        assert answer.headers["location"] == f"{str(client.base_url).rstrip('/')}/connectors/a%2Fb"


def test_the_leader_s_refusal_is_passed_on() -> None:
    with (
        serving(scripted({"patch": BadRequest("no\nway")})) as leading,
        serving(scripted({"patch": Elsewhere(f"{leading.base_url}/")})) as client,
    ):
        answer = client.patch("/connectors/c/config", json={"a": "b"})
    assert (answer.status_code, answer.json()) == (400, {"error_code": 400, "message": "no\nway"})


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (404, b"<html>", "IO Error trying to forward REST request: "),
        (302, b"", "Unexpected status code when handling forwarded request: 302"),
    ],
)
def test_an_answer_that_connect_would_not_give_is_an_error(
    leader: Recorder, status: int, body: bytes, message: str
) -> None:
    leader.status, leader.body, leader.headers = status, body, [(b"location", b"/elsewhere")]
    with serving(scripted({"delete": Elsewhere(leader.url)})) as client:
        answer = client.delete("/connectors/c")
    assert answer.status_code == answer.json()["error_code"] == 500
    assert answer.json()["message"].startswith(message)
    assert len(leader.seen) == 1  # redirects are not followed


def test_a_leader_that_is_gone_is_an_error_soon() -> None:
    gone = HttpServer([Listener("http", "127.0.0.1", 0)])
    gone.stop()
    with serving(scripted({"delete": Elsewhere(f"{gone.bound[0]}/")})) as client:
        answer = client.delete("/connectors/c")
    assert answer.status_code == 500
    assert answer.json()["message"].startswith("IO Error trying to forward REST request: ")
    assert answer.elapsed.total_seconds() < 30


def test_a_worker_that_is_alone_forwards_nothing(leader: Recorder) -> None:
    with serving(scripted({"delete": Elsewhere(leader.url)}), forwards=False) as client:
        assert client.delete("/connectors/c").status_code == 409
    assert leader.seen == []


def test_head_of_what_another_decides_has_no_body(leader: Recorder) -> None:
    with serving(scripted({"connector_info": Elsewhere(leader.url)})) as client:
        answer = client.head("/connectors/c")
    assert (answer.status_code, answer.content, leader.seen[0]["method"]) == (200, b"", "GET")


def test_a_secret_to_keep_goes_to_the_leader_as_it_is(leader: Recorder) -> None:
    known = ConnectorInfo("c", {"connector.class": "Known", "name": "c", "pin": "1234"}, [], "sink")
    herder = scripted({"connector_info": known, "configure": Elsewhere(leader.url)})
    with serving(herder, {"rest.mask.secrets": True}) as client:
        client.put("/connectors/c/config", json={"connector.class": "Known", "pin": "[hidden]", "a": "1"})
    assert httpx.Response(200, content=leader.seen[0]["body"]).json() == {
        "name": "c",
        "connector.class": "Known",
        "pin": "1234",
        "a": "1",
    }
