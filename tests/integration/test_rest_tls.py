"""A cluster whose REST is https with client certificates: what a follower is asked goes to the leader, also once all
certificates, and the authority that issues them, were replaced while it ran."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.certificates import Authority
from tests.integration.cluster_worker import ClusterWorker, new_cluster, wait_balanced
from tests.integration.worker_process import SOURCE, Topic, envelope, eventually

pytestmark = pytest.mark.long

NOTED = "The certificates of requests to other workers have changed"


class SecureWorker(ClusterWorker):
    """A worker of a cluster with https, and the one who asks it."""

    def __init__(self, folder: Path, bootstrap: str, cluster: str, authority: Authority) -> None:
        stores = {"key": "own.pem", "trust": "ca.pem"}
        tls = {f"listeners.https.ssl.{kind}store.location": str(folder / name) for kind, name in stores.items()}
        super().__init__(folder, bootstrap, cluster, {**tls, "listeners.https.ssl.client.auth": "required"})
        self.url = self.url.replace("http", "https")
        written = self.worker_file.read_text(encoding="utf-8")
        self.worker_file.write_text(written.replace("listeners=http:", "listeners=https:"), encoding="utf-8")
        self.http.close()
        self.replace_certificates(authority)

    def replace_certificates(self, authority: Authority) -> None:
        """The worker, and who asks it, have certificates of this authority, and trust no other."""
        for name, text in (("own.pem", authority.issue("worker").pem), ("ca.pem", authority.pem)):
            (self.folder / "new").write_text(text)
            os.replace(self.folder / "new", self.folder / name)
        self.http = httpx.Client(base_url=self.url, timeout=60, verify=known_to(authority, self.folder))


def known_to(authority: Authority, folder: Path) -> ssl.SSLContext:
    """The context of a client that the authority has issued a certificate, and that trusts it."""
    (folder / "client.pem").write_text(authority.issue("client").pem)
    context = ssl.create_default_context(cadata=authority.pem)
    context.load_cert_chain(folder / "client.pem")
    return context


@pytest.fixture
def authority() -> Authority:
    return Authority("First CA")


@pytest.fixture
def workers(broker: str, tmp_path: Path, authority: Authority) -> Iterator[list[SecureWorker]]:
    cluster = new_cluster()
    with (
        SecureWorker(tmp_path / "w1", broker, cluster, authority) as first,
        SecureWorker(tmp_path / "w2", broker, cluster, authority) as second,
    ):
        yield [first.wait_ready(), second.wait_ready()]


def test_workers_ask_each_other_with_the_certificates_of_the_day(
    workers: list[SecureWorker], broker: str, tmp_path: Path, authority: Authority
) -> None:
    topic = Topic(broker, "lines")
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    configs = {
        f"src-{number}": {
            "connector.class": SOURCE,
            "file": str(tmp_path / ("in.txt" if number == 0 else "absent.txt")),
            "topic": topic.name,
            "tasks.max": "1",
        }
        for number in range(2)
    }
    # One of both follows, and the tasks of one connector come from a worker that does not lead.
    for worker, (name, config) in zip(workers, configs.items(), strict=True):
        made = worker.http.post("/connectors", json={"name": name, "config": config})
        assert made.status_code == 201, made.text
        assert made.headers["location"] == f"{worker.url}/connectors/{name}"
    running = wait_balanced(workers[0], among=2, items=4)
    assert set(running.values()) == {worker.url.removeprefix("https://") for worker in workers}
    eventually(lambda: topic.values() == [envelope("one"), envelope("two")], 60)

    next_authority = Authority("Second CA")
    before = [worker.http for worker in workers]
    for worker in workers:
        worker.replace_certificates(next_authority)

    def asked_with_the_new_ones() -> bool:
        for worker, (name, config) in zip(workers, configs.items(), strict=True):
            try:
                answer = worker.http.put(f"/connectors/{name}/config", json=config)
            except httpx.ConnectError:  # a second may pass before files are looked at again
                return False
            if answer.status_code != 200:
                return False
        return any(NOTED in worker.log() for worker in workers)

    # Connections that are there are used up to four seconds longer.
    eventually(asked_with_the_new_ones, 60, every_s=5)
    for client, worker in zip(before, workers, strict=True):
        client.close()
        with (
            httpx.Client(base_url=worker.url, verify=known_to(authority, tmp_path), timeout=60) as old,
            pytest.raises(httpx.ConnectError, match="certificate"),
        ):
            old.get("/connectors")
