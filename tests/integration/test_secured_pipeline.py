"""All of it with TLS and logins: a file goes as Avro through Kafka into a database, by two workers with users.

The broker has ACLs, the registry a login, the REST API https, users and rights; certificates and passwords change
while it runs.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest

from headrace.worker.embedded.registry_files import CCOMPAT
from headrace.worker.embedded.registry_server import Registry
from tests.certificates import Authority
from tests.integration.cluster_worker import ClusterWorker, new_cluster
from tests.integration.databases import Database
from tests.integration.guarded_broker import CLUSTER, GROUP, OPERATIONS, TOPIC, Grant, Guarded, guarded_broker
from tests.integration.worker_process import eventually
from tests.unit.converters.registry.scripted_registry import forwarding, scripted

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.database]

ADMIN: Final = ("anna", "anna's password")
READER: Final = ("rita", "rita's password")
REGISTRY: Final = ("schemas", "of-all")
RIGHTS: Final = """
[[rules]]
who = ["user:anna"]
connectors = ["*"]
rights = ["edit", "operate", "offsets", "admin"]

[[rules]]
who = ["user:rita"]
connectors = ["from-*"]
rights = ["view"]
"""


class Shop(NamedTuple):
    """Two workers, and what is around them."""

    workers: list[ClusterWorker]
    guarded: Guarded
    authority: Authority
    folder: Path
    registry: str


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, registry_process: Registry) -> Iterator[Shop]:
    folder, authority = tmp_path_factory.mktemp("shop"), Authority()
    (folder / "ca.pem").write_text(authority.pem)
    (folder / "worker.pem").write_text(authority.issue("worker").pem)
    (folder / "users.properties").write_text(_users())
    (folder / "rights.toml").write_text(RIGHTS)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "worker.pem")
    bearer = "Basic " + base64.b64encode(":".join(REGISTRY).encode()).decode()
    root = registry_process.url.removesuffix(CCOMPAT)
    with (
        guarded_broker(folder / "kafka", ["worker", "source", "sink"]) as guarded,
        scripted((0, forwarding(root, bearer)), context=context) as guarded_registry,
    ):
        everything = [OPERATIONS.ALL]
        guarded.grant(
            *(Grant(user, TOPIC, "*", everything) for user in ("worker", "source", "sink")),
            *(Grant(user, GROUP, "*", everything) for user in ("worker", "sink")),
            *(Grant(user, CLUSTER, "kafka-cluster", everything) for user in ("worker", "source")),
        )
        cluster = new_cluster()
        settings = {
            **guarded.login("worker"),
            **guarded.login("source", prefix="producer."),
            **guarded.login("sink", prefix="consumer."),
            **guarded.login("worker", prefix="admin."),
            "listeners.https.ssl.keystore.location": str(folder / "worker.pem"),
            "listeners.https.ssl.keystore.type": "PEM",
            "listeners.https.ssl.truststore.location": str(folder / "ca.pem"),
            "listeners.https.ssl.truststore.type": "PEM",
            "rest.basic.auth.users.file": str(folder / "users.properties"),
            "rest.rights.file": str(folder / "rights.toml"),
        }
        workers = [SecuredWorker(folder / str(n), guarded.servers, cluster, settings) for n in range(2)]
        with workers[0], workers[1]:
            for worker in workers:
                worker.trust(authority, ADMIN)
                worker.wait_ready(120)
            yield Shop(workers, guarded, authority, folder, guarded_registry.url + CCOMPAT)


class SecuredWorker(ClusterWorker):
    """A worker over https."""

    def configure(self, settings: Any) -> None:
        self.url = self.url.replace("http://", "https://")
        super().configure({**settings, "listeners": self.url})

    def trust(self, authority: Authority, login: tuple[str, str]) -> None:
        """Ask it as this user."""
        self.http.close()
        context = ssl.create_default_context(cadata=authority.pem)
        self.http = httpx.Client(base_url=self.url, timeout=60, verify=context, auth=login)


def _users(*changed: tuple[str, str]) -> str:
    users = dict([ADMIN, READER, *changed])
    return "".join(f"{name}={password}\n" for name, password in users.items())


def test_a_file_goes_as_avro_into_a_database_while_certificates_and_passwords_change(
    shop: Shop, postgresql: Database
) -> None:
    first, second = shop.workers
    source, table = shop.folder / "in.txt", "from_file"
    source.write_text("".join(f"line {n}\n" for n in range(100)))
    avro = {
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": shop.registry,
        "value.converter.basic.auth.credentials.source": "USER_INFO",
        "value.converter.basic.auth.user.info": ":".join(REGISTRY),
        "value.converter.schema.registry.ssl.truststore.location": str(shop.folder / "ca.pem"),
        "value.converter.schema.registry.ssl.truststore.type": "PEM",
    }
    created = {
        "from-file": {
            "connector.class": "FileStreamSource",
            "file": str(source),
            "topic": table,
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
            "transforms": "row",
            "transforms.row.type": "org.apache.kafka.connect.transforms.HoistField$Value",
            "transforms.row.field": "line",
            **avro,
        },
        "into-database": {
            "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
            "topics": table,
            "auto.create": "true",
            **postgresql.settings,
            **avro,
        },
    }
    for worker, (name, config) in zip((first, second), created.items(), strict=True):  # one of them forwards
        worker.request("PUT", f"/connectors/{name}/config", config)
    eventually(lambda: _lines(postgresql, table) == 100, 120, lambda: first.log()[-3000:] + second.log()[-3000:])

    # A certificate and a password are replaced while it runs.
    new = shop.authority.issue("worker")
    (shop.folder / "worker.pem").write_text(new.pem)
    for worker in shop.workers:
        eventually(lambda worker=worker: _serial(worker, shop.authority) == new.certificate.serial_number, 60)
    (shop.folder / "users.properties").write_text(_users((ADMIN[0], "another")))
    for worker in shop.workers:
        eventually(lambda worker=worker: _status(worker, shop, (ADMIN[0], "another")) == 200, 60)
        assert _status(worker, shop, ADMIN) == 401
        worker.trust(shop.authority, (ADMIN[0], "another"))
    with source.open("a") as file:
        file.write("".join(f"line {n}\n" for n in range(100, 200)))
    eventually(lambda: _lines(postgresql, table) == 200, 60, first.log)
    for (
        worker
    ) in shop.workers:  # the one that does not run it, or does not lead, asks the other with its new certificate
        assert worker.request("PUT", "/connectors/from-file/pause").status_code == 202
        assert worker.request("PUT", "/connectors/from-file/resume").status_code == 202
    first.wait_states("from-file", "RUNNING")
    logs = first.log() + second.log()
    for secret in (ADMIN[1], READER[1], REGISTRY[1], "worker-secret", "source-secret", "sink-secret"):
        assert secret not in logs


def test_a_user_sees_what_the_rights_give(shop: Shop) -> None:
    context = ssl.create_default_context(cadata=shop.authority.pem)
    for worker in shop.workers:
        with httpx.Client(base_url=worker.url, verify=context, auth=READER, timeout=60) as rita:
            assert rita.get("/connectors").json() == ["from-file"]
            assert rita.get("/connectors/from-file/status").status_code == 200
            for method, path in (
                ("GET", "/connectors/from-file/config"),
                ("GET", "/connectors/into-database/status"),
                ("PUT", "/connectors/from-file/pause"),
                ("DELETE", "/connectors/from-file"),
                ("GET", "/connectors/from-file/offsets"),
            ):
                answer = rita.request(method, path)
                assert (answer.status_code, answer.json()["error_code"]) == (403, 403), path
            shown = json.dumps(rita.get("/connectors?expand=status&expand=info").json())
            assert "in.txt" not in shown


def _lines(database: Database, table: str) -> int:
    there = database.value("SELECT count(*) FROM information_schema.tables WHERE table_name = :name", name=table)
    return int(database.value(f'SELECT count(DISTINCT line) FROM "{table}"')) if there else 0


def _serial(worker: ClusterWorker, authority: Authority) -> int | None:
    """The number of the certificate that the worker shows."""
    from cryptography import x509

    host, port = worker.url.removeprefix("https://").split(":")
    return x509.load_pem_x509_certificate(ssl.get_server_certificate((host, int(port))).encode()).serial_number


def _status(worker: ClusterWorker, shop: Shop, login: tuple[str, str]) -> int:
    context = ssl.create_default_context(cadata=shop.authority.pem)
    return httpx.get(f"{worker.url}/connectors", auth=login, verify=context, timeout=60).status_code
