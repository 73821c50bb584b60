"""The log lines of a connector over REST: those of all workers together, in order."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from headrace.worker.errors import ConnectError, NotFound
from headrace.worker.herder.rest_client import ForwardedAnswer, RestClient
from headrace.worker.logging.recent_lines import RECENT, LogLine
from tests.unit.rest.scripted import scripted, serving
from tests.unit.rest.test_endpoints import refused

THERE = {"worker": "there:8083", "at": 2, "level": "WARN", "text": "second"}


def asked(herder: Any, path: str) -> httpx.Response:
    with serving(herder) as client:
        return client.get(path)


def test_the_lines_of_all_workers_are_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(_: Any, method: str, url: str, target: str, **more: Any) -> ForwardedAnswer:
        assert (method, target) == ("GET", "/connectors/a%2Fb/logs?lines=3&forward=false")
        if url == "http://java":
            raise ConnectError("HTTP 404 Not Found", 404)
        body = {"lines": [THERE], "skipped": {}} if url == "http://there" else {"lines": [{"worker": 1}]}
        return ForwardedAnswer(200, {}, json.dumps(body).encode())

    herder = scripted()
    urls = ["http://there", "http://java", "http://odd"]
    monkeypatch.setattr(type(herder), "other_workers", lambda _: urls, raising=False)
    monkeypatch.setattr(RestClient, "forward", forward)
    for at, text in ((0, "too old"), (1, "first"), (3, "third")):
        RECENT.add("a/b", LogLine(at, "INFO", text))
    found = asked(herder, "/connectors/a%2Fb/logs?lines=3").json()
    assert [line["text"] for line in found["lines"]] == ["first", "second", "third"]
    assert found["lines"][:2] == [{"worker": "here:8083", "at": 1, "level": "INFO", "text": "first"}, THERE]
    assert found["skipped"].keys() == {"http://java", "http://odd"}


def test_a_connector_that_is_not_there_has_no_lines() -> None:
    RECENT.add("gone", LogLine(1, "INFO", "of another"))
    assert refused(asked(scripted({"connector_info": NotFound("no such")}), "/connectors/gone/logs"), 404) == "no such"


@pytest.mark.parametrize("lines", ["0", "-1", "1001", "x", "٣", ""])
def test_wrong_numbers_of_lines_are_refused(lines: str) -> None:
    assert "no number from 1 to 1000" in refused(asked(scripted(), f"/connectors/c/logs?lines={lines}"), 400)
