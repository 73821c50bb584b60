"""A connector's history: what it shows, to whom, and how the config goes back to a revision."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.rest.security.forwarded import address_headers
from headrace.worker.errors import Elsewhere, Forbidden
from headrace.worker.model import ConnectorInfo, TargetState
from headrace.worker.requester import Requester, requester
from headrace.worker.storage.history import Move, Revision, Snapshot
from headrace.worker.storage.signing import SessionKey
from tests.unit.rest.conftest import Worker
from tests.unit.rest.scripted import Named, scripted, serving
from tests.unit.rest.test_app import FILE, refused
from tests.unit.rest.test_forwarding import Recorder
from tests.unit.rest.test_rights import as_user, rights_file

OLD = {"connector.class": "Known", "name": "c", "pin": "12345678", "topics": "t", "x.password": "Hunter2"}
NEW = {"connector.class": "Known", "name": "c", "pin": "87654321", "topics": "u", "x.password": "${file:/p:k}"}
ALICE = Requester("alice", "10.0.0.1")


def revisions() -> list[Revision]:
    old, new, paused = (
        Snapshot(OLD, TargetState.STARTED),
        Snapshot(NEW, TargetState.STARTED),
        Snapshot(NEW, TargetState.PAUSED),
    )
    return [
        Revision("c", "config", 1000, None, old, ALICE, offset=1, number=3),
        Revision("c", "config", 2000, old, new, None, offset=5, number=4),
        Revision("c", "state", 3000, new, paused, ALICE, offset=7, number=8),
        Revision("c", "offsets", 4000, paused, paused, ALICE, [Move({"p": 1}, {"o": 1}, None)], number=9),
        Revision("c", "delete", 5000, paused, None, ALICE, offset=9, number=12),
    ]


def known(**script: Any) -> Any:
    configured = (False, ConnectorInfo("c", OLD, [], "sink"))
    return scripted({"revisions": lambda _: revisions(), "configure": configured, **script})


@pytest.fixture
def leader() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.server.stop()


def test_the_newest_change_comes_first_and_no_secret_is_shown() -> None:
    with serving(known()) as client:
        answer = client.get("/connectors/c/history")
    shown = answer.json()
    assert [(one["revision"], one["change"], one["state"]) for one in shown] == [
        (12, "delete", None),
        (9, "offsets", "PAUSED"),
        (8, "state", "PAUSED"),
        (4, "config", "RUNNING"),
        (3, "config", "RUNNING"),
    ]
    assert shown[3] == {
        "revision": 4,
        "at": "1970-01-01T00:00:02.000+00:00",
        "by": None,
        "from": "another worker",
        "change": "config",
        "state": "RUNNING",
        "differences": {
            "pin": {"before": "[hidden]", "after": "[hidden]"},
            "topics": {"before": "t", "after": "u"},
            "x.password": {"before": "[hidden]", "after": "${file:/p:k}"},
        },
    }
    assert (shown[4]["by"], shown[4]["from"]) == ("alice", "10.0.0.1")
    assert shown[2]["differences"] == {"state": {"before": "RUNNING", "after": "PAUSED"}}
    assert shown[1]["differences"] == {'{"p": 1}': {"before": {"o": 1}, "after": None}}
    assert shown[0]["differences"]["topics"] == {"before": "u", "after": None}
    assert not [secret for secret in ("12345678", "87654321", "Hunter2") if secret in answer.text]


def test_a_rollback_sets_the_config_of_the_revision_with_its_secrets() -> None:
    herder = known()
    with serving(herder) as client:
        assert client.post("/connectors/c/rollback", json={"revision": 3}).json()["name"] == "c"
        assert herder.asked[-1] == ("configure", "c", OLD)
        client.post("/connectors/c/rollback", json={"revision": 8})
        assert herder.asked[-1] == ("configure", "c", NEW)


@pytest.mark.parametrize(
    "body", [{}, {"revision": "x"}, {"revision": None}, {"revision": 3, "more": 1}, {"revision": -3}]
)
def test_a_rollback_names_one_revision(body: Any) -> None:
    herder = known()
    with serving(herder) as client:
        assert '{"revision": n}' in refused(client.post("/connectors/c/rollback", json=body), 400)
    assert herder.asked == []


def test_a_rollback_to_what_is_not_there_or_has_no_config_is_refused() -> None:
    with serving(known()) as client:
        assert "no revision 5" in refused(client.post("/connectors/c/rollback", json={"revision": 5}), 404)
        assert "has no config" in refused(client.post("/connectors/c/rollback", json={"revision": 12}), 400)


def test_a_rollback_that_another_worker_decides_is_the_config_that_it_means(leader: Recorder) -> None:
    herder = known(configure=Elsewhere(leader.url))
    with serving(herder) as client:
        client.post("/connectors/a%2Fb/rollback", json={"revision": 3}).raise_for_status()
    seen = leader.seen[0]
    assert (seen["method"], seen["raw_path"]) == ("PUT", b"/connectors/a%2Fb/config")
    assert json.loads(seen["body"]) == OLD


def test_without_a_history_the_setting_is_named(tmp_path: Path) -> None:
    with serving(known(revisions=Forbidden("Set config.history.topic"))) as client:
        assert "config.history.topic" in refused(client.get("/connectors/c/history"), 403)


def test_offsets_are_shown_to_who_may_see_them(tmp_path: Path) -> None:
    file = rights_file(tmp_path, ("user:reader", "c", "view_config"), ("user:both", "c", "view_config"))
    rules = Path(file).read_text() + '[[rules]]\nwho = ["user:both"]\nrights = ["offsets"]\nconnectors = ["c"]\n'
    Path(file).write_text(rules)
    with serving(known(), {"rest.rights.file": file}, around=Named) as client:
        shown = {user: as_user(client, user, "GET", "/connectors/c/history").json()[1] for user in ("reader", "both")}
    assert shown["reader"]["differences"] == {}
    assert shown["both"]["differences"] != {}


def test_a_change_is_made_by_its_principal_from_its_address(leader: Recorder) -> None:
    asked: list[Requester | None] = []
    key = SessionKey.generate()

    def pause(_: str) -> None:
        asked.append(requester())

    herder = scripted({"pause": pause})
    type(herder).session_key = property(lambda _: key)
    stated = address_headers("192.0.2.7", "PUT", "/connectors/c/pause?forward=true", key)
    with serving(herder, around=Named) as client:
        client.put("/connectors/c/pause", headers={"x-user": "alice"})
        client.put("/connectors/c/pause?forward=true", headers=stated)
        client.put("/connectors/d/pause?forward=true", headers=stated)
        herder.script["pause"] = Elsewhere(leader.url)
        client.put("/connectors/c/pause")
    assert asked == [
        Requester("alice", "127.0.0.1"),
        Requester("ANONYMOUS", "192.0.2.7"),
        Requester("ANONYMOUS", "a worker at 127.0.0.1"),
    ]
    sent = {name.decode(): value.decode() for name, value in leader.seen[0]["headers"].items()}
    expected = address_headers("127.0.0.1", "PUT", "/connectors/c/pause?forward=true", key)
    assert {name: sent[name.lower()] for name in expected} == expected


def test_a_worker_alone_has_a_history(workers: Callable[..., Worker]) -> None:
    client = workers().client
    client.put("/connectors/c/config", json=FILE).raise_for_status()
    client.put("/connectors/c/config", json={**FILE, "batch.size": "7"}).raise_for_status()
    client.put("/connectors/c/stop").raise_for_status()
    client.delete("/connectors/c/offsets").raise_for_status()
    client.delete("/connectors/c").raise_for_status()
    shown = client.get("/connectors/c/history").json()
    assert [(one["change"], one["by"], one["from"]) for one in reversed(shown)] == [
        (change, "ANONYMOUS", "127.0.0.1") for change in ("config", "config", "state", "offsets", "delete")
    ]
    assert shown[3]["differences"] == {"batch.size": {"before": None, "after": "7"}}
    assert list(shown[1]["differences"].values()) == [{"before": {"line": 2, "position": 34}, "after": None}]
    answer = client.post("/connectors/c/rollback", json={"revision": shown[4]["revision"]})
    assert (answer.status_code, answer.headers["location"]) == (201, f"{client.base_url}/connectors/c")
    assert client.get("/connectors/c/config").json() == {**FILE, "name": "c"}
    assert "The history has no change" in refused(client.get("/connectors/never/history"), 404)
    client.delete("/connectors/c")
