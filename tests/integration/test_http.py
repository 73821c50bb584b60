"""The HTTP connectors on a real worker and broker: published configs, reports, dead letters, kills of the worker.

Configs are those of quick starts and examples, hosts and names aside.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.plugins.testkit import HttpOutside, Request
from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.partitions import messages
from tests.integration.worker_process import Topic, eventually

pytestmark = pytest.mark.long

WITHIN_S = 250
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
CONFLUENT = "io.confluent.connect.http."


class Service(HttpOutside):
    """Keeps the messages that it is sent, and gives events by number and page."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Request] = []
        self.events = 0

    def answer(self, request: Request) -> Any:
        if request.method == "GET":
            return self._events(request)
        if request.body.decode() in self.refused:
            return 422, {"why": "refused"}
        self.kept.append(request)
        return {"id": len(self.kept)}

    def _events(self, request: Request) -> Any:
        after = int(request.query.get("offset") or request.query.get("after") or 0)
        found = [{"id": n, "at": f"2020-01-01T00:{n // 60:02}:{n % 60:02}Z"} for n in range(1, self.events + 1)]
        if (page := request.query.get("page")) is not None:
            return found[int(page) * 3 - 3 : int(page) * 3]
        return {"items": found[after : after + 50]}

    @property
    def bodies(self) -> list[str]:
        return [one.body.decode() for one in self.kept]


@pytest.fixture(scope="module")
def cluster(broker_process: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterWorker]:
    settings = {"key.converter": STRING, "value.converter": STRING, "offset.flush.interval.ms": "500"}
    place = tmp_path_factory.mktemp("http")
    with ClusterWorker(place / "w", broker_process.bootstrap_servers, new_cluster(), settings) as worker:
        yield worker.wait_ready()


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.close()


def delete(cluster: ClusterWorker, name: str) -> None:
    cluster.request("DELETE", f"/connectors/{name}")
    eventually(lambda: name not in cluster.get("/connectors"), WITHIN_S)


def test_confluents_quick_start_with_reports(cluster: ClusterWorker, broker: str, service: Service) -> None:
    topic, name = Topic(broker, "http-messages"), "http-sink"
    config = {
        "connector.class": f"{CONFLUENT}HttpSinkConnector",
        "tasks.max": "1",
        "topics": topic.name,
        "key.converter": STRING,
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "confluent.topic.bootstrap.servers": broker,
        "confluent.topic.replication.factor": "1",
        "reporter.bootstrap.servers": broker,
        "reporter.error.topic.name": f"{topic.name}-errors",
        "reporter.error.topic.replication.factor": "1",
        "reporter.result.topic.name": f"{topic.name}-responses",
        "reporter.result.topic.replication.factor": "1",
        "reporter.result.topic.value.format": "string",
        "http.api.url": f"{service.url}/api/messages",
        "request.body.format": "json",
        "headers": "Content-Type: application/json|Authorization: Bearer hidden-token",
        "max.retries": "1",
        "retry.backoff.ms": "1",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic.name}-dead",
        "errors.deadletterqueue.topic.replication.factor": "1",
    }
    service.refuse(['[{"name":"bad"}]'])
    cluster.create(name, **config)
    topic.send([b'{"name": "a"}', b'{"name": "bad"}', b'{"name": "b"}'], keys=[b"1", b"2", b"3"])
    eventually(lambda: service.bodies == ['[{"name":"a"}]', '[{"name":"b"}]'], WITHIN_S, cluster.log)
    assert service.kept[0].headers["Authorization"] == "Bearer hidden-token"
    eventually(lambda: len(messages(broker, f"{topic.name}-responses")) == 2, WITHIN_S, cluster.log)
    told = messages(broker, f"{topic.name}-responses")[0]
    assert (told.key(), told.value()) == (b'"1"', b'{"id": 1}')
    headers = dict(told.headers() or ())
    assert (headers["input_record_topic"], headers["input_record_offset"]) == (topic.name.encode(), b"0")
    eventually(lambda: len(messages(broker, f"{topic.name}-errors")) == 2, WITHIN_S, cluster.log)
    assert b"answered 422" in (messages(broker, f"{topic.name}-errors")[0].value() or b"")
    eventually(lambda: [m.key() for m in messages(broker, f"{topic.name}-dead")] == [b"2"], WITHIN_S, cluster.log)
    assert "hidden-token" not in cluster.log()
    delete(cluster, name)


def test_confluents_url_of_each_key_with_deletes(cluster: ClusterWorker, broker: str, service: Service) -> None:
    topic, name = Topic(broker, "keyed"), "keyed"
    config = {
        "connector.class": f"{CONFLUENT}HttpSinkConnector", "topics": topic.name, "request.method": "put",
        "http.api.url": f"{service.url}/${{topic}}/${{key}}", "behavior.on.null.values": "delete",
        "regex.patterns": "^~$", "regex.replacements": '{"message":"~"}', "confluent.license": "",
    }  # fmt: skip
    cluster.create(name, **config)
    topic.send([b"x", None, b"y"], keys=[b"a/1", b"a/1", b"b"])  # type: ignore[list-item]
    eventually(lambda: len(service.kept) == 3, WITHIN_S, cluster.log)
    found = [(one.method, one.path, one.body) for one in service.kept]
    assert found == [
        ("PUT", f"/{topic.name}/a%2F1", b'{"message":"x"}'),
        ("DELETE", f"/{topic.name}/a%2F1", b""),
        ("PUT", f"/{topic.name}/b", b'{"message":"y"}'),
    ]
    delete(cluster, name)


def test_aivens_example(cluster: ClusterWorker, broker: str, service: Service) -> None:
    topic, name = Topic(broker, "user-activity"), "my-http-sink"
    config = {
        "topics": topic.name,
        "connector.class": "io.aiven.kafka.connect.http.HttpSinkConnector",
        "http.url": f"{service.url}/endpoint",
        "http.authorization.type": "static",
        "http.headers.authorization": "hidden-header",
        "http.headers.content.type": "application/json",
        "key.converter": STRING,
        "value.converter": STRING,
        "batching.enabled": "true",
    }
    cluster.create(name, **config)
    topic.send([b"1", b"2"])
    eventually(lambda: "".join(service.bodies).split() == ["1", "2"], WITHIN_S, cluster.log)
    assert service.kept[0].headers["Authorization"] == "hidden-header"
    delete(cluster, name)
    assert "hidden-header" not in cluster.log()


def test_castorms_issues_by_time(cluster: ClusterWorker, broker: str, service: Service) -> None:
    topic, name = Topic(broker, "issues"), "castorm"
    config = {
        "connector.class": "com.github.castorm.kafka.connect.http.HttpSourceConnector",
        "tasks.max": "1",
        "http.offset.initial": "timestamp=2019-05-08T07:55:44Z",
        "http.request.url": f"{service.url}/rest/api/2/search",
        "http.request.headers": "Authorization: Basic hidden-login, Accept: application/json",
        "http.request.params": "since=${offset.timestamp}",
        "http.response.list.pointer": "/items",
        "http.response.record.offset.pointer": "key=/id, timestamp=/at",
        "http.timer.interval.millis": "100",
        "http.timer.catchup.interval.millis": "100",
        "kafka.topic": topic.name,
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    service.events = 5
    cluster.create(name, **config)
    eventually(lambda: len(messages(broker, topic.name)) == 5, WITHIN_S, cluster.log)
    offset = {"key": "5", "timestamp": "2020-01-01T00:00:05Z"}
    eventually(lambda: cluster.offsets(name) == [{"partition": {}, "offset": offset}], WITHIN_S, cluster.log)
    service.fail_next(OSError())  # drops one connection
    service.events = 7
    eventually(lambda: len(messages(broker, topic.name)) == 7, WITHIN_S, cluster.log)
    found = [json.loads(one.value() or b"") for one in messages(broker, topic.name)]
    assert [json.loads(one["value"])["id"] for one in found] == list(range(1, 8))
    assert found[0]["timestamp"] == 1577836801000
    assert "hidden-login" not in cluster.log()
    delete(cluster, name)


def test_confluents_source_with_offsets_of_records(cluster: ClusterWorker, broker: str, service: Service) -> None:
    topic, name = Topic(broker, "entity"), "http-source"
    entity = topic.name.removeprefix("entity-")
    config = {
        "connector.class": f"{CONFLUENT}HttpSourceConnector",
        "tasks.max": "1",
        "url": f"{service.url}/api/${{entityName}}",
        "entity.names": entity,
        "topic.name.pattern": "entity-${entityName}",
        "http.offset.mode": "CHAINING",
        "http.offset.json.pointer": "/id",
        "http.initial.offset": "0",
        "http.request.parameters": "offset=${offset}",
        "http.response.data.json.pointer": "/items",
        "request.interval.ms": "100",
        "auth.type": "none",
        "confluent.topic.bootstrap.servers": broker,
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }
    service.events = 3
    cluster.create(name, **config)
    eventually(lambda: len(messages(broker, topic.name)) == 3, WITHIN_S, cluster.log)
    assert json.loads(messages(broker, topic.name)[0].value() or b"") == {"id": 1, "at": "2020-01-01T00:00:01Z"}
    delete(cluster, name)


def test_a_worker_killed_while_it_sends_loses_nothing(cluster: ClusterWorker, broker: str, service: Service) -> None:
    topic, name = Topic(broker, "killed"), "killed"
    cluster.create(
        name, **{
            "connector.class": f"{CONFLUENT}HttpSinkConnector", "topics": topic.name,
            "http.api.url": f"{service.url}/rows", "retry.backoff.ms": "10",
        }
    )  # fmt: skip
    values = [f"{n}" for n in range(3000)]
    topic.send([value.encode() for value in values])
    eventually(lambda: len(service.kept) > 500, WITHIN_S, cluster.log, every_s=0.01)
    cluster.kill()
    cluster.kill_family()
    service.restart()
    cluster.start()
    cluster.wait_ready()
    eventually(lambda: set(values) <= set(service.bodies), WITHIN_S, cluster.log)
    whole = [body for body in service.bodies if body]  # the killed worker may have sent half a request
    assert list(dict.fromkeys(whole)) == values
    delete(cluster, name)


@pytest.mark.soak
def test_a_worker_killed_while_it_reads_pages_goes_on(cluster: ClusterWorker, broker: str, service: Service) -> None:
    topic, name = Topic(broker, "pages"), "pages"
    config = {
        "connector.class": "HttpSource",
        "kafka.topic": topic.name,
        "http.request.url": service.url,
        "http.request.params": "page=${page}",
        "http.paging": "PAGE",
        "http.timer.interval.millis": "50",
        "http.response.record.mapper": "StringKvSourceRecordMapper",
    }
    service.events = 10
    cluster.create(name, **config)
    eventually(lambda: len(messages(broker, topic.name)) == 10, WITHIN_S, cluster.log)
    wanted = [{"partition": {}, "offset": {"page": "4", "page.records": 1}}]
    eventually(lambda: cluster.offsets(name) == wanted, WITHIN_S, cluster.log)
    cluster.kill()
    cluster.kill_family()
    service.events = 20
    cluster.start()
    cluster.wait_ready()
    wanted_ids = list(range(1, 21))

    def found() -> list[int]:
        return [json.loads(one.value() or b"")["id"] for one in messages(broker, topic.name)]

    eventually(lambda: set(found()) == set(wanted_ids), WITHIN_S, cluster.log)
    assert list(dict.fromkeys(found())) == wanted_ids  # the offset that REST shows may be stored a moment later
    delete(cluster, name)
