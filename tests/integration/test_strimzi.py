"""A worker as Strimzi's operator starts it, and the calls by which it keeps a KafkaConnector as it is declared.

The start script runs on folders of the test; all else is as in a pod: the environment, the mounted properties with
their variables, PEM certificates in files, tini as the container's first process. The operator itself is not there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import httpx
import psutil
import pytest

from tests import short_jvms
from tests.certificates import Authority
from tests.held_ports import held_port
from tests.integration.cluster_worker import ClusterWorker, cluster_settings, new_cluster
from tests.integration.debian_packages import installed
from tests.integration.worker_process import SINK, SOURCE, eventually, lines_of, properties
from tests.tcp_proxy import linked_broker

pytestmark = pytest.mark.long

SCRIPTS = Path(__file__).parents[2] / "deploy" / "strimzi"
DIRECTORY = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
REPORTER = "io.strimzi.kafka.metrics.prometheus"


class Pod(ClusterWorker):
    """A worker in folders as Strimzi's container has them."""

    command: ClassVar = "kafka_connect_run.sh"

    def __init__(self, folder: Path, bootstrap: str, cluster: str, authority: Authority) -> None:
        self.home = folder / "kafka"
        self.metrics_url = f"http://127.0.0.1:{held_port()}"
        (self.home / "custom-config").mkdir(parents=True)
        (self.home / "init").mkdir()
        (self.home / "init" / "rack.id").write_text("zone-a")
        (self.home / "custom-config" / "log4j2.properties").write_text("rootLogger.level = INFO\n")
        self.certificates = self.home / "connect-certs"
        self.certificates.mkdir()
        user = authority.issue("user")
        for name, text in (("ca.crt", authority.pem), ("user.crt", user.certificate_pem), ("user.key", user.key_pem)):
            (self.certificates / name).write_text(text)
        (self.home / "bin").symlink_to(SCRIPTS / "bin")
        super().__init__(folder, bootstrap, cluster)
        given = {**self.declared(bootstrap), **cluster_settings(cluster)}
        (self.home / "custom-config" / "kafka-connect.properties").write_text(properties(given))

    def declared(self, bootstrap: str) -> dict[str, str]:
        """The file that the operator mounts, but for names and times of the cluster."""
        tls = {
            "security.protocol": "SSL",
            "ssl.truststore.certificates": self.file("ca.crt"),
            "ssl.truststore.type": "PEM",
            "ssl.keystore.certificate.chain": self.file("user.crt"),
            "ssl.keystore.key": self.file("user.key"),
            "ssl.keystore.type": "PEM",
        }
        providers = {
            "strimzienv": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            "strimzifile": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "strimzidir": DIRECTORY,
            "strimzisecrets": "io.strimzi.kafka.KubernetesSecretConfigProvider",
        }
        return {
            "bootstrap.servers": bootstrap,
            "rest.advertised.host.name": "${strimzienv:ADVERTISED_HOSTNAME}",
            "listeners": self.url,  # the operator leaves it out
            "metrics.listeners": self.metrics_url,
            "plugin.path": str(self.home / "plugins"),
            "config.providers": ",".join(providers),
            **{f"config.providers.{name}.class": value for name, value in providers.items()},
            "config.providers.strimzidir.param.allowed.paths": str(self.home),
            **{
                prefix + key: value for prefix in ("", "producer.", "consumer.", "admin.") for key, value in tls.items()
            },
            "consumer.client.rack": f"${{strimzidir:{self.home}/init:rack.id}}",
            "metric.reporters": f"{REPORTER}.ClientMetricsReporter",
            "prometheus.metrics.reporter.listener": "http://:9404",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.flush.interval.ms": "1000",
            **short_jvms.of_spark(),
        }

    def file(self, name: str) -> str:
        return f"${{strimzidir:{self.certificates}:{name}}}"

    def start(self) -> None:
        """The container's command runs."""
        installed(["tini", "hostname"], ["tini", "hostname"])
        (self.home / "plugins").mkdir(exist_ok=True)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        env = {
            **os.environ,
            "PATH": path,
            "HEADRACE_TEST_MARK": self._mark,
            "KAFKA_HOME": str(self.home),
            "STRIMZI_CONNECT_FILE": str(self.folder / "strimzi-connect.properties"),
            "ADVERTISED_HOSTNAME": "127.0.0.1",
            "TMPDIR": str(self.folder / "tmp"),
            "KAFKA_HEAP_OPTS": "-Xms128M -Xmx700M",
            "STRIMZI_KAFKA_GC_LOG_ENABLED": "false",
            "STRIMZI_DYNAMIC_HEAP_PERCENTAGE": "75",
        }
        with open(self.log_file, "ab") as out:
            self._process = subprocess.Popen(
                [str(SCRIPTS / self.command)], stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=self.home, env=env
            )


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    """A worker that is ready, of a broker that asks clients for certificates."""
    folder, authority = tmp_path_factory.mktemp("strimzi"), Authority()
    (folder / "broker.pem").write_text(authority.issue("broker").pem)
    (folder / "ca.pem").write_text(authority.pem)
    stores = {"keystore": "broker.pem", "truststore": "ca.pem"}
    settings = {f"listener.name.link.ssl.{store}.location": str(folder / file) for store, file in stores.items()}
    settings |= {f"listener.name.link.ssl.{store}.type": "PEM" for store in stores}
    settings["listener.name.link.ssl.client.auth"] = "required"
    with (
        linked_broker(folder / "broker", settings, "SSL") as (broker, _),
        Pod(folder / "pod", broker.link_servers, new_cluster(), authority) as made,
    ):
        yield made.wait_ready()


def answer(pod: Pod, method: str, path: str, json: Any = None) -> tuple[int, Any]:
    found = pod.http.request(method, path, json=json)
    return found.status_code, found.json() if found.content else None


def state(pod: Pod, name: str) -> tuple[str, list[str]]:
    code, status = answer(pod, "GET", f"/connectors/{name}/status")
    return (status["connector"]["state"], [task["state"] for task in status["tasks"]]) if code == 200 else ("", [])


def wait_state(pod: Pod, name: str, *wanted: str) -> None:
    expected = (wanted[0], list(wanted[1:]))
    eventually(lambda: state(pod, name) == expected, 90, lambda: f"{state(pod, name)}; {pod.log()[-3000:]}")


def test_the_operators_file_becomes_the_workers(pod: Pod) -> None:
    text = (pod.folder / "strimzi-connect.properties").read_text()
    assert "spark.driver.memory=700m" in text
    assert "metrics.names=strimzi-reporter" in text
    assert "ssl.keystore.key=${strimzidir:" in text, "secrets are read when they are needed"
    assert pod.certificates.joinpath("user.key").read_text().split("\n")[1] not in pod.log()
    assert answer(pod, "GET", "/health")[1]["status"] == "healthy"
    metrics = httpx.get(f"{pod.metrics_url}/metrics", timeout=60)
    assert "kafka_connect_connect_worker_metrics_connector_count" in metrics.text
    assert httpx.get(f"{pod.metrics_url}/connectors", timeout=60).status_code == 404


def test_a_connector_is_kept_as_it_is_declared(pod: Pod) -> None:
    read, written = pod.folder / "read", pod.folder / "written"
    read.write_text("one\ntwo\n")
    source = {"connector.class": SOURCE, "tasks.max": "1", "file": str(read), "topic": "lines"}
    sink = {"connector.class": SINK, "tasks.max": "1", "file": str(written), "topics": "lines"}

    code, plugins = answer(pod, "GET", "/connector-plugins")
    assert code == 200
    assert all({"class", "type", "version"} <= set(one) for one in plugins)
    assert answer(pod, "GET", "/connectors") == (200, [])
    assert answer(pod, "GET", "/connectors/in/config")[0] == 404
    created = {"name": "in", "config": source, "initial_state": "STOPPED"}
    assert answer(pod, "POST", "/connectors", created)[0] == 201
    wait_state(pod, "in", "STOPPED")
    assert answer(pod, "PUT", "/connectors/out/config", sink)[0] == 201
    wait_state(pod, "out", "RUNNING", "RUNNING")

    # What it reads back has to be what it sent, or it would send it again at each round.
    assert answer(pod, "GET", "/connectors/in/config") == (200, {**source, "name": "in"})
    assert answer(pod, "PUT", "/connectors/in/config", source)[0] == 200
    assert answer(pod, "GET", "/connectors/in/config") == (200, {**source, "name": "in"})
    wait_state(pod, "in", "STOPPED")

    # spec.state: a stopped one has its offsets altered, then runs, is paused, and runs on.
    first = {"partition": {"filename": str(read)}, "offset": {"position": 4, "line": 1}}
    code, said = answer(pod, "PATCH", "/connectors/in/offsets", {"offsets": [first]})
    assert (code, set(said)) == (200, {"message"})
    assert answer(pod, "PUT", "/connectors/in/resume")[0] == 202
    wait_state(pod, "in", "RUNNING", "RUNNING")
    eventually(lambda: lines_of(written) == [b"two"], 90, pod.log)
    assert answer(pod, "PUT", "/connectors/in/pause")[0] == 202
    wait_state(pod, "in", "PAUSED", "PAUSED")
    assert answer(pod, "DELETE", "/connectors/in/offsets")[0] == 400, "only a stopped one's are reset"
    assert answer(pod, "PUT", "/connectors/in/resume")[0] == 202
    wait_state(pod, "in", "RUNNING", "RUNNING")

    # The restart annotations; what they began goes on from where it was.
    code, status = answer(pod, "POST", "/connectors/in/restart?includeTasks=true&onlyFailed=false")
    assert (code, status["name"]) == (202, "in")
    assert answer(pod, "POST", "/connectors/out/restart?includeTasks=false&onlyFailed=false")[0] in (202, 204)
    assert answer(pod, "POST", "/connectors/out/tasks/0/restart")[0] == 204
    with read.open("a") as more:
        more.write("three\n")
    eventually(lambda: lines_of(written) == [b"two", b"three"], 90, pod.log)
    wait_state(pod, "in", "RUNNING", "RUNNING")
    assert answer(pod, "GET", "/connectors/in/topics") == (200, {"in": {"topics": ["lines"]}})

    # The offsets annotation: list, then reset.
    assert answer(pod, "PUT", "/connectors/in/stop")[0] == 204
    wait_state(pod, "in", "STOPPED")
    end = {"position": len(read.read_bytes()), "line": 3}
    assert answer(pod, "GET", "/connectors/in/offsets") == (200, {"offsets": [{**first, "offset": end}]})
    assert answer(pod, "DELETE", "/connectors/in/offsets")[0] == 200
    assert answer(pod, "GET", "/connectors/in/offsets") == (200, {"offsets": []})

    assert answer(pod, "DELETE", "/connectors/in")[0] == 204
    eventually(lambda: answer(pod, "GET", "/connectors/in/status")[0] == 404, 60)
    assert answer(pod, "GET", "/connectors") == (200, ["out"])


def test_a_connector_may_begin_paused(pod: Pod) -> None:
    config = {"connector.class": SINK, "tasks.max": "1", "file": str(pod.folder / "paused"), "topics": "lines"}
    created = {"name": "paused", "config": config, "initial_state": "PAUSED"}
    assert answer(pod, "POST", "/connectors", created)[0] == 201
    wait_state(pod, "paused", "PAUSED")  # as Apache's: tasks are planned when it first runs
    assert answer(pod, "DELETE", "/connectors/paused")[0] == 204


@pytest.mark.parametrize(
    ("method", "path", "config", "said"),
    [
        (
            "PUT",
            "/connectors/new/config",
            {"connector.class": "ThisConnectorDoesNotExist"},
            "Failed to find any class that implements Connector and which name matches ThisConnectorDoesNotExist",
        ),
        (
            "PUT",
            "/connectors/new/config",
            {"connector.class": SINK, "tasks.max": "dog", "topics": "t", "file": "/f"},
            "Invalid value dog for configuration tasks.max: Not a number of type INT",
        ),
        ("DELETE", "/connectors/never-existed", None, "Connector never-existed not found"),
    ],
)
def test_what_the_resource_shows_of_an_error(pod: Pod, method: str, path: str, config: Any, said: str) -> None:
    code, body = answer(pod, method, path, config)
    assert code >= 400
    assert said in body["message"]


def test_the_container_ends_well_and_nothing_of_it_stays(pod: Pod) -> None:
    family = pod.family()
    assert len(family) >= 3, "tini, the worker and Spark's driver"
    assert pod.stop() == 0
    assert psutil.wait_procs(family, timeout=30)[1] == []
