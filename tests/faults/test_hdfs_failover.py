"""Two name nodes; the active one is killed while sinks write. Each offset is in one file."""

from __future__ import annotations

import random
from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.integration.ha_hdfs_server import HaHdfsServer
from tests.integration.sink_places import Hdfs, Numbers
from tests.integration.worker_process import WorkerProcess, eventually

pytestmark = pytest.mark.long

PARTITIONS = 2
FLUSH = 500
SHARE = 2_000


@pytest.fixture(scope="module")
def ha_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HaHdfsServer]:
    server = HaHdfsServer(tmp_path_factory.mktemp("ha-hdfs"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.mark.soak
@pytest.mark.parametrize("failovers", [1, 10])
@pytest.mark.timeout(1800)
def test_each_offset_is_in_one_file_over_failovers(
    worker: WorkerProcess, broker: str, ha_hdfs: HaHdfsServer, failovers: int
) -> None:
    chance, begin, run = random.Random(7), len(worker.log()), uuid4().hex[:8]
    sinks = {}
    clients = {f"by-web-{run}": ha_hdfs.conf_dir, f"by-jvm-{run}": ha_hdfs.rpc_conf_dir}
    for name, conf_dir in clients.items():
        place = Hdfs(ha_hdfs.url, ha_hdfs.web_addresses, **{"hadoop.conf.dir": str(conf_dir)})
        settings = {"tasks.max": "2", "rotate.interval.ms": "300"}
        sinks[name] = Numbers(broker, place, FLUSH, PARTITIONS, **settings)
        worker.create(name, **sinks[name].config)

    def there(numbers: Numbers, wanted: int) -> None:
        eventually(lambda: numbers.count() >= wanted, 120, lambda: worker.log()[begin:])

    for _ in range(failovers):
        for numbers in sinks.values():
            sent = PARTITIONS * numbers.sent
            numbers.send(SHARE)
            there(numbers, sent + chance.randrange(1, SHARE))
        ha_hdfs.kill_active()
        for numbers in sinks.values():
            numbers.send(SHARE)
        ha_hdfs.fail_over()
        for numbers in sinks.values():
            there(numbers, PARTITIONS * numbers.sent)
    for name, numbers in sinks.items():
        worker.wait_states(name, "RUNNING", "RUNNING")
        # What could not be deleted while a name node was away is left for the partition's next owner.
        worker.request("POST", f"/connectors/{name}/restart?includeTasks=true").raise_for_status()
        eventually(lambda of=numbers: not of.staged(), 60, lambda: worker.log()[begin:])
        numbers.check()
    assert "Traceback" not in worker.log()[begin:]
