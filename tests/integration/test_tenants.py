"""Attacks by a user who may edit `team-*` on two workers with logins and rights. He tries to reach the workers' own
state in Kafka, and the records and groups of others. Each attack is sent to both workers; one forwards it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest
from confluent_kafka import Producer

from headrace.rest.security.forwarded import headers_for
from headrace.rest.security.principal import Principal
from headrace.worker.storage.signing import SessionKey
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
MOST_BYTES: Final = 2_000_000
"""The largest body of a request: larger than Kafka takes a config."""
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
        "file.allowed.paths": str(folder),
        "rest.max.request.bytes": str(MOST_BYTES),
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


def test_files_outside_of_the_folder_are_refused(shared: Shared) -> None:
    pipe = shared.folder / "pipe"
    os.mkfifo(pipe)
    paths = ["/dev/zero", "/etc/hostname", "/no/such/file", str(pipe), str(shared.folder / "users.properties")]
    truststore = "consumer.override.ssl.truststore.location"
    key_tab = "com.sun.security.auth.module.Krb5LoginModule required keyTab={};"
    topics = {"topics": shared.topic.name}
    outside = shared.source(topic="lines") | {"file": "/etc/hostname"}
    for worker in shared.workers:
        told = set()
        for path in paths:
            attacks = {truststore: path, "consumer.override.sasl.jaas.config": key_tab.format(path)}
            for key, value in attacks.items():
                answer = shared.put(worker, "team-reader", shared.sink(**topics, **{key: value}))
                assert answer.status_code == 400, value
                told.add(answer.json()["message"].replace(path, "PATH"))
        assert len(told) == 1, "one answer, whether or not a file is there"
        answer = shared.put(worker, "team-reader", outside)
        assert (answer.status_code, "file.allowed.paths" in answer.text) == (400, True), answer.text
        assert worker.http.get("/connectors/team-reader").status_code == 404


def test_more_tasks_than_the_workers_allow_are_refused(shared: Shared) -> None:
    config = shared.sink(topics=shared.topic.name)
    wide = {"tasks.max": "20000000"}
    assert shared.put(shared.workers[0], "team-wide", config).status_code == 201
    for worker in shared.workers:
        answers = [
            shared.put(worker, "team-wide", config | wide),
            worker.http.patch("/connectors/team-wide/config", json=wide, auth=TEAM),
            worker.http.post("/connectors", json={"name": "team-wider", "config": config | wide}, auth=TEAM),
        ]
        assert [one.status_code for one in answers] == [400] * 3
        assert all("tasks.max.limit" in one.text for one in answers)
    shared.workers[0].request("DELETE", "/connectors/team-wide")


def test_a_config_too_large_for_kafka_is_refused_in_few_words(shared: Shared) -> None:
    large = shared.sink(topics=shared.topic.name, text="y" * (MOST_BYTES * 3 // 4))
    for worker in shared.workers:
        assert shared.put(worker, "team-large", large).status_code == 413
        assert worker.http.get("/connectors/team-large").status_code == 404
    for number, worker in enumerate(shared.workers):
        audit = shared.folder / f"audit{number}.log"
        assert audit.stat().st_mode & 0o077 == 0
        assert max(map(len, [*worker.log().splitlines(), *audit.read_text().splitlines()])) < 50_000


def test_unfinished_bodies_leave_room_for_others(shared: Shared) -> None:
    faked = {"X-Connect-Authorization": "c2ln", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}
    config = shared.sink(topics=shared.topic.name)
    for number, worker in enumerate(shared.workers):
        unsigned = [_unfinished(worker, {}) for _ in range(5)]
        eventually(partial(_have_ended, unsigned, 5), 60, worker.log)
        hanging = [_unfinished(worker, faked) for _ in range(10)]
        eventually(partial(_have_ended, hanging, 8), 60, worker.log)
        for name, through in enumerate(shared.workers):  # of whom one forwards it
            assert shared.put(through, f"team-{number}-{name}", config).status_code == 201
            assert through.http.delete(f"/connectors/team-{number}-{name}", auth=TEAM).status_code == 204
        for one in (*unsigned, *hanging):
            one.close()


def _unfinished(worker: ClusterWorker, headers: Mapping[str, str]) -> socket.socket:
    """A connection that has sent most of a body, if it was read, and not the rest."""
    host, _, port = worker.url.removeprefix("http://").rpartition(":")
    made = socket.create_connection((host, int(port)), timeout=60)
    fields = {"Host": host, "Content-Type": "application/json", "Content-Length": str(MOST_BYTES), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    with contextlib.suppress(ConnectionError):  # it was refused meanwhile
        made.sendall(f"POST /connectors/victim/tasks HTTP/1.1\r\n{head}\r\n".encode() + b" " * (MOST_BYTES - 100))
    return made


def _have_ended(connections: Sequence[socket.socket], count: int) -> bool:
    """True if the worker has ended so many of the connections."""
    return sum(map(_has_ended, connections)) >= count


def _has_ended(connection: socket.socket) -> bool:
    """True if the worker has ended the connection."""
    connection.settimeout(0.01)
    try:
        while connection.recv(65536):
            continue
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


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
        answer = httpx.delete(f"{worker.url}{target}", headers=forged, timeout=60)
        assert answer.status_code == 403
        assert worker.http.get("/connectors/victim").status_code == 200
