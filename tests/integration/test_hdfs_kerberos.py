"""A sink of files on an HDFS that wants Kerberos, with a real KDC: logins, their renewal, and what it says without."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests import short_jvms
from tests.integration.kdc import REALM, Kdc
from tests.integration.secured_hdfs_server import SERVER, USER, SecuredHdfsServer
from tests.integration.sink_places import Local, Numbers
from tests.integration.worker_process import WorkerProcess, eventually

pytestmark = pytest.mark.long

LIFE_S = 8
FLUSH = 3


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    kdc = Kdc(tmp_path_factory.mktemp("kdc"))
    kdc.create()
    kdc.start()
    yield kdc
    kdc.kill()


@pytest.fixture(scope="module")
def hdfs(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredHdfsServer]:
    server = SecuredHdfsServer(tmp_path_factory.mktemp("secured-hdfs"), kdc)
    server.start()
    yield server
    server.stop()


class Sink:
    """A sink on the secured HDFS."""

    def __init__(self, worker: WorkerProcess, broker: str, hdfs: SecuredHdfsServer, **settings: str) -> None:
        self._worker, self._hdfs = worker, hdfs
        self.name = f"sink-{uuid4().hex[:8]}"
        self._folder = f"/{USER}/{self.name}"
        place = Local(worker.folder / self.name)
        self.numbers = Numbers(broker, place, FLUSH)
        self.config = {
            **self.numbers.config,
            "store.url": f"{hdfs.url}{self._folder}",
            "hadoop.conf.dir": str(hdfs.client_conf_dir),
            **settings,
        }
        self._begin = len(worker.log())
        worker.create(self.name, **self.config)

    def send(self) -> None:
        """One more file's numbers are in the topic."""
        self.numbers.send(FLUSH)

    def wait_committed(self) -> None:
        """All that was sent is in files."""

        def committed() -> bool:
            found = self._worker.offsets(self.name)
            return bool(found) and found[0]["offset"]["kafka_offset"] == self.numbers.sent

        eventually(committed, 60, lambda: self._worker.log()[self._begin :])

    def wait_failed(self, *words: str) -> None:
        """Its task has failed, and the status says why with these words, in this order."""
        self._worker.wait_states(self.name, "FAILED")
        assert re.search(".*".join(map(re.escape, words)), self._worker.trace(self.name)), self._worker.trace(self.name)

    def told(self, *words: str) -> bool:
        """True if a line of its log has these words, in this order."""
        wanted = re.compile(rf"{self.name}\b.*{'.*'.join(map(re.escape, words))}")
        return wanted.search(self._worker.log(), self._begin) is not None

    def restart(self) -> None:
        """The failed task is restarted."""
        self._worker.request("POST", f"/connectors/{self.name}/tasks/0/restart")

    def check(self) -> None:
        """Each number is in a file, once."""
        self._hdfs.shell("-get", self._folder, str(self._worker.folder))
        self.numbers.check()


@pytest.mark.soak
def test_a_sink_with_kerberos(broker: str, kdc: Kdc, hdfs: SecuredHdfsServer, tmp_path: Path) -> None:
    keytab = tmp_path / "archive.keytab"
    shutil.copy(kdc.add(USER, "-maxlife", f"{LIFE_S} seconds"), keytab)
    kerberos = {
        "hdfs.authentication.kerberos": "true",
        "connect.hdfs.principal": f"{USER}@{REALM}",
        "connect.hdfs.keytab": str(keytab),
        "kerberos.ticket.renew.period.ms": "1000",
    }
    java = {key: f"{value} -Djava.security.krb5.conf={kdc.conf}" for key, value in short_jvms.of_spark().items()}
    with WorkerProcess(tmp_path / "worker", broker, settings=java) as worker:
        worker.wait_ready(120)
        without = Sink(worker, broker, hdfs)
        without.wait_failed("Could not ", hdfs.url, "hdfs.authentication.kerberos")

        right = kdc.keytab(USER)  # the former one is void
        sink = Sink(worker, broker, hdfs, **kerberos)
        sink.wait_failed("Could not ", hdfs.url, "connect.hdfs.keytab", "then restart the task")
        shutil.copy(right, keytab)
        sink.restart()
        sink.send()
        sink.wait_committed()
        other = Sink(worker, broker, hdfs, **{**kerberos, "connect.hdfs.principal": f"other@{REALM}"})
        other.wait_failed(f"logged in to Kerberos as {USER}@{REALM}", "another worker")

        logins = kdc.logins(USER)

        def renewed() -> bool:
            sink.send()
            sink.wait_committed()
            return kdc.logins(USER) > logins

        eventually(renewed, 4 * LIFE_S, worker.log, every_s=0.5)
        kdc.kill()
        hdfs.name_node.kill()  # and with it what is connected by the ticket
        sink.send()
        eventually(lambda: sink.told("KDC answers", "krb5.conf", "it is tried again"), 4 * LIFE_S, worker.log)
        kdc.start()
        hdfs.start()
        sink.wait_committed()
        kdc.log_in(SERVER)
        sink.check()
