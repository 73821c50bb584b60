"""The audit log: who asked for which change, with which answer; no secret and no forged line in it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from headrace.rest.http.errors import error
from headrace.rest.security.audit import AuditLayer, AuditLog
from headrace.rest.security.principal import set_forwarded
from headrace.worker.errors import BadRequest, Elsewhere, NotFound
from headrace.worker.logging import logs
from headrace.worker.model import ConnectorInfo
from tests.unit.rest.scripted import Named, scripted, serving
from tests.unit.rest.test_app import until
from tests.unit.rest.test_rights import rights_file

OLD = {
    "connector.class": "Known",
    "name": "c",
    "pin": "12345678",
    "x.password": "Hunter2-old",
    "url": "jdbc:postgresql://me:Pa55-in-url@db/x",
    "topic": "orders",
    "secret.count": "3",
}
SECRETS = ("12345678", "Hunter2", "Pa55-in-url", "N3w-")


class Audited:
    """A file of lines, as settings ask for it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "audit.log"
        self.settings = {"rest.audit.log": "json", "rest.audit.log.file": str(self.path)}

    def lines(self, count: int) -> list[dict[str, Any]]:
        """So many lines, which are written after the answers."""
        until(lambda: self.path.exists() and len(self.path.read_text().splitlines()) >= count)
        found = [json.loads(line) for line in self.path.read_text().splitlines()]
        assert len(found) == count
        return found


@pytest.fixture
def audited(tmp_path: Path) -> Audited:
    return Audited(tmp_path)


def known(**script: Any) -> Any:
    info = ConnectorInfo("c", OLD, [], "sink")
    return scripted({"connector_info": info, "configure": (False, info), "patch": info, "create": info, **script})


def test_a_line_says_who_asked_what_from_where_and_the_answer(audited: Audited) -> None:
    with serving(known(), audited.settings, around=Named) as client:
        answer = client.put("/connectors/a%2Fb/pause?x=1", headers={"x-user": "anna"})
        assert answer.status_code == 202
        line = audited.lines(1)[0]
    moment = line.pop("time")
    assert moment.endswith("+00:00")
    assert line == {
        "who": "anna",
        "from": "127.0.0.1",
        "method": "PUT",
        "path": "/connectors/a%2Fb/pause?x=1",
        "connector": "a/b",
        "status": 202,
    }


def test_every_change_has_its_line_and_nothing_else_has(audited: Audited) -> None:
    herder = known(delete=NotFound("none"), alter_offsets="ok", reset_offsets="ok", restart_with=BadRequest("no"))
    herder.script["connectors"] = []
    with serving(herder, audited.settings) as client:
        for path in ("/", "/connectors", "/connectors/c", "/admin/loggers", "/metrics"):
            assert client.get(path).status_code == 200
        client.put("/connector-plugins/Known/config/validate", json=OLD)
        client.post("/connectors/c/tasks", json=[])
        client.put("/connectors/c/fence")
        client.put("/nowhere")
        client.options("/connectors/c/pause")
        changes = [
            ("POST", "/connectors", {"name": "c", "config": {}}, 201),
            ("PUT", "/connectors/c/config", OLD, 200),
            ("PATCH", "/connectors/c/config", {"a": "b"}, 200),
            ("PUT", "/connectors/c/resume", None, 202),
            ("PUT", "/connectors/c/stop", None, 204),
            ("POST", "/connectors/c/restart", None, 204),
            ("POST", "/connectors/c/restart?onlyFailed=true", None, 400),
            ("POST", "/connectors/c/tasks/0/restart", None, 204),
            ("PUT", "/connectors/c/topics/reset", None, 202),
            ("PATCH", "/connectors/c/offsets", {"offsets": [{"partition": {"f": 1}, "offset": None}]}, 200),
            ("DELETE", "/connectors/c/offsets", None, 200),
            ("DELETE", "/connectors/c", None, 404),
            ("PUT", "/admin/loggers/headrace.x", {"level": "debug"}, 200),
            ("PUT", "/admin/drain", None, 202),
        ]
        for method, path, body, status in changes:
            assert client.request(method, path, json=body).status_code == status
        lines = audited.lines(len(changes))
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        (method, path, status) for method, path, _, status in changes
    ]
    assert {line["who"] for line in lines} == {"ANONYMOUS"}
    assert [line.get("connector") for line in lines] == ["c"] * 12 + [None] * 2
    assert lines[9]["offsets"] == '[{"partition": {"f": 1}, "offset": null}]'
    assert lines[12]["level"] == '"debug"'


def test_what_is_refused_has_a_line_too(audited: Audited, tmp_path: Path) -> None:
    settings = {**audited.settings, "rest.rights.file": rights_file(tmp_path, ("user:anna", "c", "view"))}
    with serving(known(), settings, around=Named) as client:
        anna = {"x-user": "anna"}
        assert client.put("/connectors/c/pause", headers=anna).status_code == 403
        assert client.put("/connector-plugins/Known/config/validate", json={}, headers=anna).status_code == 403
        assert client.get("/connectors/c/config", headers=anna).status_code == 403
        assert client.delete("/connectors/c", headers={"host": "evil.example"}).status_code == 403
        lines = audited.lines(3)
    assert [(line["who"], line["method"], line["status"]) for line in lines] == [
        ("anna", "PUT", 403),
        ("anna", "PUT", 403),
        ("ANONYMOUS", "DELETE", 403),
    ]
    assert all("changed" not in line for line in lines)


def test_who_has_no_login_has_a_line(audited: Audited) -> None:
    audit = AuditLog.of(audited.settings)
    assert audit is not None

    async def closed(scope: Any, receive: Any, send: Any) -> None:
        await error(401, "User cannot access the resource.")(scope, receive, send)

    with serving(scripted(), around=lambda _: AuditLayer(closed, audit)) as client:
        assert client.get("/connectors").status_code == 401
        assert client.put("/connectors/c%2Fd/pause").status_code == 401
        line = audited.lines(1)[0]
    assert (line["who"], line["connector"], line["status"]) == ("ANONYMOUS", "c/d", 401)


def test_a_config_s_difference_is_shown_without_secrets(audited: Audited) -> None:
    new = {
        "connector.class": "Known",
        "pin": "${file:/run/secrets:pin}",
        "x.password": "N3w-password",
        "url": "jdbc:postgresql://me:N3w-in-url@db/y",
        "topic": "orders",
        "secret.count": "4",
        "note": "it was Hunter2-old before",
        "y.token": "N3w-token",
    }
    with serving(known(), audited.settings) as client:
        client.put("/connectors/c/config", json=new)
        client.patch("/connectors/c/config", json={"topic": None, "pin": "N3w-pin", "z": "1"})
        client.post("/connectors", json={"name": "d", "config": {"pin": "N3w-pin", "a": "b"}})
        client.delete("/connectors/c")
        put, patch, post, delete = audited.lines(4)
    assert put["changed"] == {
        "pin": {"from": "[hidden]", "to": "${file:/run/secrets:pin}"},
        "x.password": {"from": "[hidden]", "to": "[hidden]"},
        "url": {"from": "jdbc:postgresql://me:[hidden]@db/x", "to": "jdbc:postgresql://me:[hidden]@db/y"},
        "secret.count": {"from": "3", "to": "4"},
    }
    assert put["added"] == {"note": "it was [hidden] before", "y.token": "[hidden]"}
    assert "removed" not in put
    assert patch["removed"] == {"topic": "orders"}
    assert patch["changed"] == {"pin": {"from": "[hidden]", "to": "[hidden]"}}
    assert patch["added"] == {"z": "1"}
    # Nothing is declared where the class is not named, or not known.
    assert post["connector"] == "d"
    assert post["added"]["a"] == "b"
    assert delete["removed"] == {
        **OLD,
        "pin": "[hidden]",
        "x.password": "[hidden]",
        "url": "jdbc:postgresql://me:[hidden]@db/x",
    }
    text = audited.path.read_text().replace(json.dumps(post), "")
    assert not [secret for secret in SECRETS if secret in text]


def test_a_config_that_cannot_be_read_stops_no_change(audited: Audited) -> None:
    herder = known(connector_info=Elsewhere(None))
    with serving(herder, audited.settings) as client:
        assert client.put("/connectors/c/config", json=OLD).status_code == 200
        herder.script["connector_info"] = NotFound("none")
        assert client.put("/connectors/c/config", json={"a": "b"}).status_code == 200
        herder.script["connector_info"] = ValueError("a bug")
        assert client.delete("/connectors/c").status_code == 204
        unknown, new, deleted = audited.lines(3)
    assert "added" not in unknown
    assert "removed" not in deleted
    assert new["added"] == {"name": "c", "a": "b"}


def test_without_it_nothing_is_read_or_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    herder = known()
    with caplog.at_level(logging.INFO), serving(herder) as client:
        client.put("/connectors/c/config", json=OLD)
    assert [call[0] for call in herder.asked] == ["configure"]
    assert not [record for record in caplog.records if record.name == "headrace.audit"]


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    stream = io.StringIO()
    logs.set_up(stream, {})
    yield stream
    root.handlers = handlers
    root.setLevel(level)


FORGED = "c\r\n[2026-01-01 00:00:00,000] INFO who=root \u202e\x1b[2J"


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_name_forges_a_line_in_the_worker_s_log(log: io.StringIO, form: str) -> None:
    segment = "c%0d%0a%5b2026-01-01%20INFO%20%e2%80%ae%1b"
    with serving(known(), {"rest.audit.log": form}, around=Named) as client:
        client.put(f"/connectors/{segment}/config", json={FORGED: FORGED})
        client.post("/connectors", json={"name": FORGED, "config": {}})
        until(lambda: log.getvalue().count("(headrace.audit:0)") == 2)
    lines = [line for line in log.getvalue().splitlines() if "headrace.audit" in line]
    assert len(lines) == 2
    assert all(line.startswith("[") and " INFO " in line and "\x1b" not in line for line in lines)
    assert not any("\u202e" in line or "\r" in line for line in lines)
    assert not any(line.startswith("[2026-01-01 00:00:00") for line in log.getvalue().splitlines())
    if form == "text":
        assert 'method="PUT"' in lines[0]
        assert 'who="ANONYMOUS" from="127.0.0.1"' in lines[0]


def test_no_level_and_no_flood_silences_it(log: io.StringIO) -> None:
    with serving(known(), {"rest.audit.log": "text"}) as client:
        try:
            assert "headrace.audit" in client.put("/admin/loggers/headrace.audit", json={"level": "OFF"}).json()
            for _ in range(30):
                client.put("/connectors/c/pause")
            until(lambda: log.getvalue().count("(headrace.audit:0)") == 31)
        finally:
            logging.getLogger("headrace.audit").setLevel(logging.NOTSET)


def test_the_file_may_be_moved_away(audited: Audited) -> None:
    with serving(known(), audited.settings) as client:
        client.put("/connectors/c/pause")
        audited.lines(1)
        audited.path.rename(audited.path.with_suffix(".1"))
        client.put("/connectors/c/resume")
        assert audited.lines(1)[0]["path"] == "/connectors/c/resume"
        for path in (audited.path, audited.path.with_suffix(".1")):
            assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_written_stops_no_change(audited: Audited, caplog: pytest.LogCaptureFixture) -> None:
    folder = audited.path.parent / "gone"
    folder.mkdir()
    audited.path = folder / "audit.log"
    with serving(known(), {**audited.settings, "rest.audit.log.file": str(audited.path)}) as client:
        client.put("/connectors/c/pause")
        audited.lines(1)
        audited.path.unlink()
        folder.rmdir()
        assert client.put("/connectors/c/pause").status_code == 202
        assert client.put("/connectors/c/pause").status_code == 202
        until(lambda: "Lines of the audit log are lost" in caplog.text)
        folder.mkdir()
        client.put("/connectors/c/stop")
        until(lambda: audited.path.exists() and "/connectors/c/stop" in audited.path.read_text())
        until(lambda: "The audit log is written again" in caplog.text)
    assert caplog.text.count("Lines of the audit log are lost") == 1


def test_a_forwarded_request_is_written_where_it_was_asked_and_where_it_is_decided(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    here, there = Audited(tmp_path / "a"), Audited(tmp_path / "b")

    def proven(app: ASGIApp) -> ASGIApp:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and b"forward=true" in scope["query_string"]:
                set_forwarded(scope)
            await app(scope, receive, send)

        return answer

    with serving(known(), there.settings, around=proven) as leading:
        herder = scripted(
            {"connector_info": ConnectorInfo("c", OLD, [], "sink"), "configure": Elsewhere(f"{leading.base_url}/")}
        )
        with serving(herder, here.settings) as client:
            assert client.put("/connectors/c/config", json={**OLD, "topic": "t"}).status_code == 200
            line = here.lines(1)[0]
        assert line["path"] == "/connectors/c/config"
        assert line["changed"] == {"topic": {"from": "orders", "to": "t"}}
        assert "forwarded" not in line
        decided = there.lines(1)[0]
    assert (decided["forwarded"], decided["path"]) == (True, "/connectors/c/config?forward=true")
    assert decided["changed"] == line["changed"]


def test_a_client_cannot_hide_a_change_as_a_forwarded_one(audited: Audited) -> None:
    with serving(known(), audited.settings) as client:
        client.put("/connectors/c/pause?forward=true")
        line = audited.lines(1)[0]
        assert (line["path"], "forwarded" in line) == ("/connectors/c/pause?forward=true", False)


def test_a_line_stays_bounded(audited: Audited) -> None:
    many = {f"key-{number}": "x" * 10_000 for number in range(1_000)}
    with serving(known(connector_info=NotFound("none")), audited.settings) as client:
        client.put("/connectors/c/config", json=many)
        added = audited.lines(1)[0]["added"]
    assert len(added) == 101
    assert added["…"] == "901 more"
    assert max(map(len, added.values())) == 501
