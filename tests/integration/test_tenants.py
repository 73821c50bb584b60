"""Attacks by a user who may edit `team-*` on two workers with logins and rights. He tries to reach the workers' own
state in Kafka, and the records and groups of others. Each attack is sent to both workers, one of which forwards it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest
from confluent_kafka import Producer

from headrace.rest.security.forwarded import headers_for
from headrace.rest.security.principal import Principal
from headrace.worker.signing import SessionKey
from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.partitions import messages
from tests.integration.worker_process import SINK, SOURCE, Topic, eventually, lines_of

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]

TEAM: Final = ("tom", "tom's password")
ADMIN: Final = ("ada", "ada's password")
RIGHTS: Final = """
[[rules]]
who = ["user:ada"]
connectors = ["*"]
rights = ["edit", "operate", "offsets", "admin"]

[[rules]]
who = ["user:tom"]
connectors = ["team-*"]
rights = ["edit", "operate", "offsets"]
"""
STRINGS: Final = {f"{side}.converter": "org.apache.kafka.connect.storage.StringConverter" for side in ("key", "value")}
MIRROR: Final = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


class Shared(NamedTuple):
    """Two workers that several teams use, and a connector of another team."""

    workers: list[ClusterWorker]
    broker: str
    folder: Path
    topic: Topic
    """The topic that the victim reads."""

    @property
    def configs(self) -> str:
        return f"{self.workers[0].cluster}-configs"

    def sink(self, **settings: str) -> dict[str, str]:
        """A tenant's sink."""
        file = str(self.folder / "stolen.txt")
        return {"connector.class": SINK, "tasks.max": "1", "file": file, **STRINGS, **settings}

    def source(self, **settings: str) -> dict[str, str]:
        """A tenant's source of one line."""
        file = self.folder / "planted.txt"
        file.write_text("planted\n")
        return {"connector.class": SOURCE, "tasks.max": "1", "file": str(file), **STRINGS, **settings}

    def mirror(self, **settings: str) -> dict[str, str]:
        """A tenant's mirror from the workers' own cluster."""
        return {
            "connector.class": MIRROR,
            "source.cluster.alias": "own",
            "replication.factor": "1",
            "emit.offset-syncs.enabled": "false",
            **{f"{side}.cluster.bootstrap.servers": self.broker for side in ("source", "target")},
            **settings,
        }

    def put(self, worker: ClusterWorker, name: str, config: Mapping[str, str]) -> httpx.Response:
        """Send a config as the tenant."""
        return worker.http.put(f"/connectors/{name}/config", json=config, auth=TEAM)

    def lines(self, number: int) -> list[dict[str, Any]]:
        """The audit log of a worker."""
        return [json.loads(line) for line in (self.folder / f"audit{number}.log").read_text().splitlines()]


@pytest.fixture(scope="module")
def shared(broker_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    if not broker_process.is_running:
        broker_process.start()
    broker, folder, cluster = broker_process.bootstrap_servers, tmp_path_factory.mktemp("tenants"), new_cluster()
    (folder / "users.properties").write_text("".join(f"{name}={password}\n" for name, password in (TEAM, ADMIN)))
    (folder / "rights.toml").write_text(RIGHTS)
    settings = {
        "rest.basic.auth.users.file": str(folder / "users.properties"),
        "rest.rights.file": str(folder / "rights.toml"),
        "rest.audit.log": "json",
        "inter.worker.principal.secret": "of-the-workers",
        "trusted.connectors": "backup-*",
    }
    logs = [{"rest.audit.log.file": str(folder / f"audit{number}.log")} for number in range(2)]
    workers = [
        ClusterWorker(folder / str(number), broker, cluster, {**settings, **log}) for number, log in enumerate(logs)
    ]
    topic = Topic(broker, "orders")
    with workers[0], workers[1]:
        for worker in workers:
            worker.http.auth = httpx.BasicAuth(*ADMIN)
            worker.wait_ready(120)
        config = {"connector.class": SINK, "file": str(folder / "orders.txt"), "topics": topic.name, **STRINGS}
        workers[0].request("PUT", "/connectors/victim/config", config)
        topic.send([b"first"])
        eventually(lambda: _committed(workers[0]) == 1, 60, workers[0].log)
        yield Shared(workers, broker, folder, topic)


def _committed(worker: ClusterWorker) -> int:
    """The offset of the victim's group."""
    found = worker.offsets("victim")
    return int(found[0]["offset"]["kafka_offset"]) if found else 0


def test_internal_topics_are_refused_by_name(shared: Shared) -> None:
    internal = [f"{shared.workers[0].cluster}-{kind}" for kind in ("configs", "offsets", "status")]
    retried = {"errors.retry.timeout": "-1"}
    attacks = [shared.sink(topics=f"{shared.topic.name}, {one}") for one in [*internal, "__consumer_offsets"]]
    attacks += [
        shared.sink(topics=shared.topic.name, **{"errors.deadletterqueue.topic.name": internal[0]}),
        shared.sink(topics=shared.topic.name, **{"errors.retry.topic.name": internal[0]}, **retried),
        shared.sink(topics="mm2-configs.A.internal"),
        shared.source(topic=internal[0]),
        shared.source(topic="lines", **{"errors.deadletterqueue.topic.name": internal[2]}),
        shared.mirror(topics=internal[0]),
    ]
    for worker in shared.workers:
        for attack in attacks:
            answer = shared.put(worker, "team-thief", attack)
            assert answer.status_code == 400, attack
            assert "trusted.connectors" in answer.json()["message"], attack
        assert worker.http.get("/connectors/team-thief").status_code == 404
    backup = shared.sink(topics=shared.configs, file=str(shared.folder / "backup.txt"))
    assert shared.put(shared.workers[0], "backup-configs", backup).status_code == 403
    shared.workers[0].request("PUT", "/connectors/backup-configs/config", backup)
    copied = shared.folder / "backup.txt"
    eventually(lambda: any(b"victim" in line for line in lines_of(copied)), 60, shared.workers[0].log)
    shared.workers[1].request("DELETE", "/connectors/backup-configs")


def test_what_only_a_running_connector_meets_is_closed_too(shared: Shared) -> None:
    first, second = shared.workers
    planted = {"transforms": "to", "transforms.to.type": "org.apache.kafka.connect.transforms.RegexRouter"}
    planted |= {"transforms.to.regex": ".*", "transforms.to.replacement": shared.configs}
    before = len(messages(shared.broker, shared.configs))
    assert shared.put(second, "team-plant", shared.source(topic="lines", **planted)).status_code == 201
    pattern = f"{shared.configs}|{shared.topic.name}"
    assert shared.put(first, "team-regex", shared.sink(**{"topics.regex": pattern})).status_code == 201
    mirrored = f"{shared.workers[0].cluster}.*"
    assert shared.put(first, "team-mirror", shared.mirror(topics=mirrored)).status_code == 201
    first.wait_states("team-plant", "FAILED")
    assert "trusted.connectors" in first.trace("team-plant")
    eventually(lambda: lines_of(shared.folder / "stolen.txt") == [b"first"], 60, first.log)
    assert not [one for one in messages(shared.broker, shared.configs)[before:] if one.value() == b"planted"]
    for said in ("match topics.regex=", "or their copies on target, have names of internal topics"):
        eventually(lambda said=said: said in first.log() + second.log(), 60, first.log)
    assert f"own.{shared.configs}" not in shared.topic.admin.list_topics(timeout=60).topics
    for name in ("team-plant", "team-regex", "team-mirror"):
        first.request("DELETE", f"/connectors/{name}")


def test_groups_and_ids_of_others_are_refused(shared: Shared) -> None:
    cluster, topics = shared.workers[0].cluster, {"topics": shared.topic.name}
    attacks = [
        shared.sink(**topics, **{"consumer.override.group.id": "connect-victim"}),
        shared.sink(**topics, **{"consumer.override.group.id": cluster}),
        shared.sink(**topics, **{"consumer.override.client.id": "connector-consumer-victim-0"}),
        shared.sink(**topics, **{"admin.override.client.id": f"{cluster}-shared-admin"}),
        shared.source(topic="lines", **{"producer.override.transactional.id": f"{cluster}-victim-0"}),
        shared.source(topic="lines", **{"producer.override.client.id": "__admin_client"}),
    ]
    for worker in shared.workers:
        for attack in attacks:
            answer = shared.put(worker, "team-thief", attack)
            assert answer.status_code == 400, attack
    own = shared.sink(**topics, **{"consumer.override.group.id": "mine"})
    assert shared.put(shared.workers[0], "team-one", own).status_code == 201
    for worker in shared.workers:
        answer = shared.put(worker, "team-two", own)
        assert (answer.status_code, "of another connector" in answer.text) == (400, True)
    shared.workers[0].request("DELETE", "/connectors/team-one")
    assert _committed(shared.workers[0]) == 1


def test_what_stood_in_the_config_topic_before_is_refused_at_its_start(shared: Shared) -> None:
    stolen = shared.sink(topics=shared.topic.name, **{"consumer.override.group.id": "connect-victim"})
    producer = Producer({"bootstrap.servers": shared.broker})
    record = json.dumps({"properties": {"name": "team-old", **stolen}})
    producer.produce(shared.configs, record, "connector-team-old", partition=0)
    producer.flush(60)
    for worker in shared.workers:
        worker.wait_states("team-old", "FAILED")
        assert "connect-victim is the consumer group of another connector" in worker.trace("team-old")
    shared.workers[0].request("PUT", "/connectors/team-old/stop")
    for worker in shared.workers:
        for method, path in (("GET", "offsets"), ("DELETE", "offsets")):
            answer = worker.http.request(method, f"/connectors/team-old/{path}", auth=TEAM)
            assert (answer.status_code, "of another connector" in answer.text) == (400, True)
    shared.workers[0].request("DELETE", "/connectors/team-old")
    assert _committed(shared.workers[0]) == 1


def test_a_change_is_audited_by_the_worker_that_decides_too(shared: Shared) -> None:
    for number, worker in enumerate(shared.workers):
        name = f"team-audited-{number}"
        assert shared.put(worker, name, shared.sink(topics=shared.topic.name)).status_code == 201
        worker.http.delete(f"/connectors/{name}", auth=TEAM).raise_for_status()

    def written() -> list[list[dict[str, Any]]]:
        return [[one for one in shared.lines(number) if "team-audited" in one["path"]] for number in range(2)]

    # The leader has lines of what was forwarded, too; the last one comes once its answer is on its way.
    eventually(lambda: sorted(map(len, written())) == [2, 4], 60, written)
    forwarded = [one for lines in written() for one in lines if one.get("forwarded")]
    assert [(one["who"], one["method"]) for one in forwarded] == [("tom", "PUT"), ("tom", "DELETE")]


def test_the_session_key_alone_makes_nobody_admin(shared: Shared) -> None:
    records = [one for one in messages(shared.broker, shared.configs) if one.key() == b"session-key"]
    key = SessionKey.of_value(json.loads(records[-1].value() or b""))
    for worker in shared.workers:
        target = "/connectors/victim?forward=true"
        forged = headers_for(Principal("ada"), "DELETE", target, key)
        answer = httpx.delete(f"{worker.url}{target}", headers=forged)
        assert answer.status_code == 403
        assert worker.http.get("/connectors/victim").status_code == 200
