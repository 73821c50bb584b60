"""The endpoints of dead letters: what each makes of its request, and what it shows to whom."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.worker.deadletters import letter_topic
from headrace.worker.deadletters.letter import Letter, Place
from headrace.worker.deadletters.letter_pages import CauseCount, CauseCounts, LetterPage, ShownLetter
from headrace.worker.deadletters.removal import Removal
from headrace.worker.errors import Elsewhere
from tests.unit.rest.conftest import Worker
from tests.unit.rest.scripted import Named, scripted, serving
from tests.unit.rest.test_app import until
from tests.unit.rest.test_endpoints import refused
from tests.unit.rest.test_rights import as_user, rights_file
from tests.unit.worker.deadletters.test_letters import Kafka, Record

TOLD = {"topic": "t", "partition": "x", "offset": "9" * 30, "stage": "TASK_PUT", "exception.message": "m" * 5_000}
LETTER = Letter("dlq", Place(1, 7), 5, None, None, (), TOLD)
SHOWN = ShownLetter(LETTER, False, "key", 3, "value", 5, (("h", "header"),))
COUNT = CauseCount(LETTER.cause, 2, 1, 5, 6, SHOWN)
PATH = "/connectors/c/dead-letters"


class Letters:
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def page(self, limit: int, before: Any) -> LetterPage:
        self.asked.append((limit, before))
        return LetterPage([SHOWN], {0: 3, 1: 7})

    def causes(self, most: int) -> CauseCounts:
        self.asked.append(most)
        return CauseCounts(2, True, [COUNT])

    def replay(self, cause: str | None, places: list[Place]) -> Any:
        self.asked.append((cause, places))
        return SimpleNamespace(counts=Counter({"t": 2}), before=1, is_over=False)

    def remove(self, upto: Any) -> Removal:
        self.asked.append(upto)
        return Removal({0: 4}, True)


def herder_of(letters: Letters) -> Any:
    return scripted({"dead_letters": letters, "dead_letters_to_change": letters})


def test_letters_are_shown_by_page_and_by_cause() -> None:
    letters = Letters()
    with serving(herder_of(letters)) as client:
        page = client.get(f"{PATH}?limit=7&before=0:12,3:4").json()
        counted = client.get(f"{PATH}/causes").json()
    assert letters.asked == [(7, {0: 12, 3: 4}), 1000]
    assert (page["before"], page["with_data"]) == ("0:3,1:7", True)
    (record,) = page["records"]
    assert record["origin"] == {
        "topic": "t",
        "partition": None,
        "offset": None,
        "source_partition": None,
        "source_offset": None,
    }
    assert (record["value"], record["headers"]) == ("value", [{"key": "h", "value": "header"}])
    assert record["message"].endswith("(3000 more characters)")
    (cause,) = counted["causes"]
    assert (cause["cause"], cause["count"], cause["waiting"], cause["example"]) == (record["cause"], 2, 1, record)


def test_letters_are_replayed_and_deleted() -> None:
    letters = Letters()
    with serving(herder_of(letters)) as client:
        made = client.post(f"{PATH}/replay", json={"records": [{"partition": 0, "offset": "17"}]})
        client.post(f"{PATH}/replay", json={"cause": "abc"})
        client.post(f"{PATH}/replay", json={})
        removed = client.delete(f"{PATH}?upto=0:3")
        client.delete(f"{PATH}?upto=all")
    assert made.json() == {"replayed": 2, "topics": {"t": 2}, "before": 1, "more": True}
    assert removed.json() == {"first": "0:4", "more": False}
    assert letters.asked == [(None, [Place(0, 17)]), ("abc", []), (None, []), {0: 3}, None]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "?limit=0", None),
        ("GET", "?limit=501", None),
        ("GET", "?limit=-1", None),
        ("GET", "?before=0", None),
        ("GET", "?before=0:1;1:2", None),
        ("GET", "?before=0:99999999999999999999", None),
        ("GET", "/causes?records=x", None),
        ("POST", "/replay", {"all": True}),
        ("POST", "/replay", {"records": []}),
        ("POST", "/replay", {"records": "x"}),
        ("POST", "/replay", {"records": [{"partition": 0}]}),
        ("POST", "/replay", {"records": [{"partition": -1, "offset": 1}]}),
        ("POST", "/replay", {"records": [{"partition": 0, "offset": None}]}),
        ("POST", "/replay", {"records": [{"partition": 0, "offset": 1}] * 501}),
        ("POST", "/replay", {"records": [{"partition": 0, "offset": 1}], "cause": "x"}),
        ("DELETE", "", None),
        ("DELETE", "?upto=", None),
        ("DELETE", "?upto=-1:0", None),
    ],
)
def test_wrong_requests_are_refused(method: str, path: str, body: Any) -> None:
    letters = Letters()
    with serving(herder_of(letters)) as client:
        refused(client.request(method, PATH + path, json=body), 400)
    assert letters.asked == []


def test_data_is_shown_to_who_may_edit_only_and_changes_are_theirs(tmp_path: Path) -> None:
    users = ("view", "view_config", "operate", "edit")
    rights = rights_file(tmp_path, *((f"user:{user}", "c", user) for user in users), ("user:other", "d", "edit"))
    letters = Letters()
    with serving(herder_of(letters), {"rest.rights.file": rights}, around=Named) as client:
        for user in ("view", "operate", "other"):
            for method, path in (("GET", ""), ("GET", "/causes"), ("POST", "/replay"), ("DELETE", "?upto=all")):
                refused(as_user(client, user, method, PATH + path, json={} if method == "POST" else None), 403)
        assert letters.asked == []
        page = as_user(client, "view_config", "GET", PATH)
        causes = as_user(client, "view_config", "GET", f"{PATH}/causes")
        refused(as_user(client, "view_config", "POST", f"{PATH}/replay", json={}), 403)
        refused(as_user(client, "view_config", "DELETE", f"{PATH}?upto=all"), 403)
        whole = as_user(client, "edit", "GET", PATH)
    for shown in (page, causes):
        assert not any(
            f'"{text}"' in shown.text for text in ("value", "key", "header") if f'"{text}":' not in shown.text
        )
        assert all(f':"{text}"' not in shown.text for text in ("value", "key", "header"))
    assert page.json()["records"][0] | {"key": None, "value": None, "headers": []} == page.json()["records"][0]
    assert page.json()["records"][0]["value_bytes"] == 5
    assert not page.json()["with_data"]
    assert whole.json()["records"][0]["value"] == "value"


def test_replays_and_deletions_are_audited(tmp_path: Path) -> None:
    file = tmp_path / "audit"
    settings = {"rest.audit.log": "json", "rest.audit.log.file": str(file)}
    with serving(herder_of(Letters()), settings) as client:
        client.get(PATH)
        client.post(f"{PATH}/replay", json={"cause": "abc"})
        client.delete(f"{PATH}?upto=0:3")
        until(lambda: file.exists() and file.read_text().count("\n") == 2)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["method"], line["path"], line["connector"]) for line in lines] == [
        ("POST", f"{PATH}/replay", "c"),
        ("DELETE", f"{PATH}?upto=0:3", "c"),
    ]
    assert lines[0]["cause"] == '"abc"'


SINK = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "file": "out.txt",
    "topics.regex": ".*",
}
LETTERS = {**SINK, "topics.regex": "(?!dlq).*", "errors.deadletterqueue.topic.name": "dlq"}


def test_a_connector_without_a_dead_letter_topic_is_told_so(workers: Callable[..., Worker]) -> None:
    client = workers().client
    client.put("/connectors/c/config", json={**SINK, "topics.regex": "t"})
    assert "has no dead letter topic" in refused(client.get(PATH), 400)
    assert "not found" in refused(client.get("/connectors/none/dead-letters"), 404)


def test_no_forged_letter_reaches_a_topic_of_kafka_itself(
    workers: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = Kafka([Record(0, 0, told={"topic": b"__consumer_offsets"})])
    for name in ("Consumer", "Producer", "kept_client"):
        monkeypatch.setattr(letter_topic, name, lambda _: kafka)
    client = workers().client
    client.put("/connectors/c/config", json=LETTERS)
    assert "__consumer_offsets, which c does not read" in refused(client.post(f"{PATH}/replay", json={}), 400)
    client.put("/connectors/c/config", json={**LETTERS, "errors.deadletterqueue.topic.name": "__transaction_state"})
    assert len(client.get(PATH).json()["records"]) == 1  # the config was refused, the former one counts


def test_letters_are_not_deleted_from_a_topic_that_a_pattern_covers(
    workers: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka = Kafka([Record(0, 0, told={})])
    for name in ("Consumer", "admin_client"):
        monkeypatch.setattr(letter_topic, name, lambda _: kafka)
    client = workers().client
    client.put("/connectors/c/config", json=LETTERS)
    client.put("/connectors/all/config", json=SINK)
    assert "Connector all uses the topic dlq, too" in refused(client.delete(f"{PATH}?upto=all"), 409)
    client.delete("/connectors/all")
    assert client.delete(f"{PATH}?upto=all").json() == {"first": "0:1", "more": False}
    assert kafka.low == [1]


def test_what_the_leader_decides_is_forwarded() -> None:
    herder = scripted({"dead_letters_to_change": Elsewhere("http://127.0.0.1:1")})
    with serving(herder) as client:
        assert "forward" in refused(client.post(f"{PATH}/replay", json={}), 500)
        assert "forward" in refused(client.delete(f"{PATH}?upto=all"), 500)
