"""Pipes of databases and a lake in a container whose user has no name.

The image is that of HEADRACE_TEST_IMAGE, or built here.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.plugins.interop.jvm.jars import fetch
from tests.image.container import ARBITRARY_USER, Container, can_build
from tests.image.image_worker import START_S, ImageWorker
from tests.integration.databases import Database, PostgresqlServer
from tests.integration.hive_server import HiveServer
from tests.integration.java_plugins import debezium, debezium_config
from tests.integration.worker_process import Topic, eventually

pytestmark = [
    pytest.mark.image,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not can_build(), reason="needs root, buildah, unshare, nsenter and chroot"),
]

ROWS = 2000


@pytest.fixture
def unnamed(image: str, tmp_path: Path) -> Iterator[Container]:
    """A container of a user that no image knows."""
    made = Container(image, tmp_path / "shared", ARBITRARY_USER)
    yield made
    made.remove()


@pytest.fixture
def database() -> Iterator[Database]:
    """A database of orders, whose changes can be followed."""
    with PostgresqlServer(options=["-c", "wal_level=logical"]) as server, server.database() as found:
        found.execute(
            "CREATE TABLE orders (id int PRIMARY KEY, item text)",
            f"INSERT INTO orders SELECT n, 'item ' || n FROM generate_series(1, {ROWS}) n",
        )
        yield found
        eventually(lambda: not found.value("SELECT count(*) FROM pg_replication_slots WHERE active"), 60)
        found.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")


def test_tables_and_changes_are_carried(unnamed: Container, broker: str, database: Database) -> None:
    debezium(unnamed.shared)
    worker = ImageWorker(
        unnamed,
        broker,
        CONNECT_OFFSET_STORAGE_FILE_FILENAME="/mnt/offsets",
        CONNECT_PLUGIN_PATH="/mnt/plugins",
        CONNECT_JAVA_HOST_HEAP="256m",
    )
    worker.start("standalone")
    eventually(worker.is_healthy, START_S, unnamed.log)
    prefix = Topic(broker, "shop").name
    changes = Topic(broker, "changes").name
    tables = {"table.whitelist": "orders", "mode": "incrementing", "incrementing.column.name": "id"}
    keyed = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id", "auto.create": "true"}
    copied = {"topics": f"{prefix}-orders", "table.name.format": "copied", **keyed}
    worker.post("from", {"connector.class": "JdbcSource", **database.settings, **tables, "topic.prefix": f"{prefix}-"})
    worker.post("to", {"connector.class": "JdbcSink", **database.settings, **copied})
    worker.post("changes", debezium_config(database, changes))

    def has_all() -> bool:
        (there,) = database.rows("SELECT to_regclass('copied') IS NOT NULL")[0]
        return bool(there) and database.value("SELECT count(*) FROM copied") == ROWS

    def shown() -> Any:
        return [worker.get(f"/connectors/{name}/status") for name in ("from", "to", "changes")], unnamed.log()

    eventually(has_all, START_S, shown)
    topic = Topic(broker, "unused")
    topic.name = f"{changes}.public.orders"
    eventually(lambda: len(topic.values()) >= ROWS, START_S, shown)
    database.execute("INSERT INTO orders VALUES (0, 'the last')")
    eventually(lambda: len(topic.values()) == ROWS + 1, START_S, shown)
    assert json.loads(topic.values()[-1])["payload"]["after"] == {"id": 0, "item": "the last"}
    worker.delete("changes")
    unnamed.stop()


def test_a_lake_with_a_hive_catalog_has_all_jars(unnamed: Container, broker: str, hive_server: HiveServer) -> None:
    cache = unnamed.shared / "cache"
    shutil.copytree(unnamed.root / "opt/headrace/cache/jars", cache / "jars")
    for jar in fetch("lake"):
        shutil.copy2(jar, cache / "jars" / jar.name)
    worker = ImageWorker(
        unnamed, broker, CONNECT_OFFSET_STORAGE_FILE_FILENAME="/mnt/offsets", HEADRACE_CACHE="/mnt/cache"
    )
    for path in (cache, cache / "jars"):
        os.chown(path, ARBITRARY_USER, 0)  # one that everybody can write to is refused
    (warehouse := unnamed.shared / "warehouse").mkdir()
    warehouse.chmod(0o777)
    worker.start("standalone")
    eventually(worker.is_healthy, START_S, unnamed.log)
    topic = Topic(broker, "lake")
    catalog = {"type": "hive", "uri": hive_server.uris, "warehouse": f"file://{warehouse}"}
    worker.post(
        "lake",
        {
            "connector.class": "IcebergSink",
            "topics": topic.name,
            "iceberg.tables": f"db_{topic.name.replace('-', '_')}.rows",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.commit.interval-ms": "300",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            **{f"iceberg.catalog.{key}": value for key, value in catalog.items()},
        },
    )
    topic.send([b'{"id": 1}', b'{"id": 2}'])

    def shown() -> str:
        return f"{worker.get('/connectors/lake/status')}\n{unnamed.log()}\nThe metastore:\n{hive_server.log()}"

    def has_rows() -> bool:
        (task,) = worker.get("/connectors/lake/status")["tasks"] or [{"state": "UNASSIGNED"}]
        assert task["state"] != "FAILED", shown()
        return any(warehouse.rglob("*.parquet")) and any(warehouse.rglob("snap-*.avro"))

    eventually(has_rows, START_S, shown)
    worker.delete("lake")
    unnamed.stop()
