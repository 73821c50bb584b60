"""Previews over REST: which config is previewed, how many records, from where, compared with what."""

from __future__ import annotations

import pytest

from headrace.worker.errors import Conflict, NotFound, TimedOut
from headrace.worker.model import ConnectorInfo
from headrace.worker.preview.model import Preview, PreviewedRecord, Stage, Wanted
from tests.unit.rest.scripted import scripted, serving

RUNNING = {"name": "c", "connector.class": "Known", "a": "1", "b": "2"}
INFO = ConnectorInfo("c", RUNNING, [], "sink")
PATH = "/connector-plugins/Known/config/preview"
SHOWN = Preview("sink", [PreviewedRecord("t", 0, 7, stages=[Stage("fetched", value="x")])], notes=["said"])


def test_a_config_is_previewed_with_what_was_asked_for() -> None:
    herder = scripted({"preview": SHOWN})
    with serving(herder) as client:
        answer = client.put(PATH, params={"records": "3", "from": "latest"}, json={"name": "n", "a": 1})
        assert answer.status_code == 200
        assert answer.json()["records"][0]["stages"][0]["value"] == "x"
        assert answer.json()["records"][0]["differences"] is None
        sample = [{"key": 1, "value": {"a": 1.5}}]
        client.put(PATH, json={"name": "n", "sample": sample}).raise_for_status()
    config = {"connector.class": "Known", "name": "n"}
    assert herder.asked == [
        ("preview", {**config, "a": "1"}, Wanted(3, "latest"), None),
        ("preview", config, Wanted(20, "stored", sample), None),
    ]


def test_changes_are_laid_over_the_running_config_and_may_be_compared_with_it() -> None:
    herder = scripted({"preview": SHOWN, "connector_info": INFO})
    with serving(herder) as client:
        client.post("/connectors/c/preview", json={"a": "9", "b": None}).raise_for_status()
        client.post("/connectors/c/preview", params={"diff": "true"}, json={}).raise_for_status()
        client.put(PATH, params={"diff": "true"}, json={"name": "c"}).raise_for_status()
        assert client.post("/connectors/c/preview", json={"name": "d"}).status_code == 400
    asked = [one[1:] for one in herder.asked if one[0] == "preview"]
    changed = {"name": "c", "connector.class": "Known", "a": "9"}
    assert asked == [
        (changed, Wanted(), None),
        (RUNNING, Wanted(), RUNNING),
        ({"connector.class": "Known", "name": "c"}, Wanted(), RUNNING),
    ]


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (f"{PATH}?records=0", {"name": "n"}, "records=0"),
        (f"{PATH}?records=101", {"name": "n"}, "1 to 100"),
        (f"{PATH}?records=many", {"name": "n"}, "records=many"),
        (PATH, {"a": "1"}, "no name"),
        (PATH, {"name": "n", "sample": [1]}, "sample[0]"),
        (PATH, {"name": "n", "sample": [{}] * 101}, "101 records"),
    ],
)
def test_what_cannot_be_previewed_is_refused(path: str, body: dict[str, object], said: str) -> None:
    herder = scripted({"preview": SHOWN})
    with serving(herder) as client:
        answer = client.put(path, json=body)
    assert answer.status_code == 400
    assert said in answer.json()["message"]
    assert herder.asked == []


def test_errors_have_their_status() -> None:
    for error, status in ((Conflict("two run"), 409), (TimedOut("the sink's preview took 15 s"), 500)):
        with serving(scripted({"preview": error})) as client:
            answer = client.put(PATH, json={"name": "n"})
        assert (answer.status_code, answer.json()["message"]) == (status, str(error))
    with serving(scripted({"connector_info": NotFound("Connector c not found")})) as client:
        assert client.post("/connectors/c/preview", json={}).status_code == 404
        assert client.put("/connector-plugins/Other/config/preview", json={"name": "n"}).status_code == 404
