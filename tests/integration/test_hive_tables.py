"""Tables in a real Hive metastore, read back as rows by Spark with Hive's catalogue."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from headrace.connectors.hdfs.format_choice import format_of
from headrace.connectors.hdfs.format_settings import FileFormat, FormatSettings
from headrace.connectors.hdfs.hive.metastore import Metastore
from headrace.connectors.hdfs.hive.tables import HiveTables
from headrace.connectors.hdfs.hive_settings import HiveSettings
from headrace.connectors.hdfs.stores.by_url import store_of
from headrace.connectors.hdfs.stores.settings import HadoopSettings, StoreSettings
from headrace.plugins.schema import DATE, DECIMAL, TIMESTAMP, Field, Schema, SchemaType
from tests.integration.hive_server import HiveServer

pytestmark = pytest.mark.long


ID = Field("id", Schema(SchemaType.INT32))
NAME = Field("name", Schema(SchemaType.STRING, optional=True))
DAY = Field("day", Schema(SchemaType.INT32, optional=True, name=DATE, version=1))
AT = Field("at", Schema(SchemaType.INT64, optional=True, name=TIMESTAMP, version=1))
PRICE = Field("price", Schema(SchemaType.BYTES, optional=True, name=DECIMAL, version=1, parameters={"scale": "2"}))
TAGS = Field("tags", Schema(SchemaType.ARRAY, optional=True, value_schema=Schema(SchemaType.STRING)))

_READ = """
import json, sys
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.sql.catalogImplementation", "hive").config("spark.hadoop.hive.metastore.uris", sys.argv[1])
    .config("spark.sql.warehouse.dir", sys.argv[2]).config("spark.sql.shuffle.partitions", "1").getOrCreate())
print("ROWS", json.dumps([[list(map(str, row)) for row in spark.sql(query).collect()] for query in sys.argv[3:]]))
"""


def struct(version: int, *fields: Field) -> Schema:
    """The schema of values."""
    return Schema(SchemaType.STRUCT, name="shop.Order", version=version, fields=fields)


class Topic:
    """One topic's folder on the local disk, with a database of its own."""

    def __init__(self, server: HiveServer, root: Path, form: FileFormat, fields: tuple[str, ...]) -> None:
        self.root = root
        self.settings = HiveSettings(server.uris, None, f"db_{uuid.uuid4().hex}", "t_${topic}")
        self.fields, self.form = fields, format_of(FormatSettings(form))
        self.metastore = Metastore(self.settings, HadoopSettings())

    def tables(self) -> HiveTables:
        """The tables of a task that begins."""
        store = store_of(StoreSettings(f"file://{self.root}"))
        return HiveTables(
            self.settings, HadoopSettings(), store, lambda topic: f"topics/{topic}", self.form, self.fields
        )

    def parquet(self, directory: str, **columns: Any) -> None:
        """A file."""
        folder = self.root / "topics" / "my.Orders" / directory
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns), folder / f"{uuid.uuid4()}.parquet")

    def avro(self, directory: str, schema: Schema, rows: list[dict[str, Any]]) -> None:
        """A file."""
        folder = self.root / "topics" / "my.Orders" / directory
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / f"{uuid.uuid4()}.avro", "wb") as file:
            fastavro.writer(file, json.loads(self.form.schema_text(schema)), rows)  # type: ignore[attr-defined]

    def partitions(self) -> set[str]:
        """The table's partitions, as the metastore has them."""
        self.metastore.open()
        try:
            return self.metastore.partitions("t_my_orders")
        finally:
            self.metastore.close()

    def columns_of(self, partition: str) -> list[str]:
        """The columns that the metastore has noted for a partition of its own."""
        self.metastore.open()
        try:
            found = self.metastore._client.getPartition(self.settings.database, "t_my_orders", partition)
            return [str(column.getName()) for column in found.getSd().getCols()]
        finally:
            self.metastore.close()


def waiting(tables: HiveTables) -> float:
    """The number of tables and partitions that the metastore is still to be told of."""
    return next(sample.value for sample in tables.samples() if sample.name == "headrace_hive_waiting")


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def rows(server: HiveServer, folder: Path, *queries: str) -> list[list[list[str]]]:
    """Return the answers of Spark with Hive's catalogue."""
    command = [sys.executable, "-c", _READ, server.uris, str(folder / "warehouse"), *queries]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[list[list[str]]] = json.loads(done.stdout.partition("ROWS ")[2])
    return found


@pytest.fixture
def make(hive_server: HiveServer, spark: SparkSession, tmp_path: Path) -> Callable[..., Topic]:
    def topic(form: FileFormat = FileFormat.PARQUET, fields: tuple[str, ...] = ("partition",)) -> Topic:
        return Topic(hive_server, tmp_path / form, form, fields)

    return topic


def test_files_are_rows_of_tables_whose_columns_grow(
    make: Callable[..., Topic], hive_server: HiveServer, tmp_path: Path
) -> None:
    parquet, avro = make(FileFormat.PARQUET), make(FileFormat.AVRO, ("country", "day"))
    first, second = struct(1, ID, NAME), struct(2, ID, NAME, DAY, AT, PRICE, TAGS)
    text, big = Field("country", Schema(SchemaType.STRING)), Field("total", Schema(SchemaType.INT64, default=7))
    one, two = struct(1, ID, text), struct(2, ID, text, big)
    ids = pa.array([1, 2], pa.int32())
    parquet.parquet("partition=0", id=ids, name=["a", None])
    avro.avro("country=D%2FE/day=1", one, [{"id": 1, "country": "D/E"}])
    tables = [parquet.tables(), avro.tables()]
    tables[0].committed("my.Orders", first, ["partition=0"])
    tables[1].committed("my.Orders", one, ["country=D%2FE/day=1"])
    for each in tables:
        wait_for(lambda each=each: waiting(each) == 0)  # type: ignore[misc]
    price = pa.array([None, 5], pa.int64()).cast(pa.decimal128(38, 2))
    parquet.parquet(
        "partition=0",
        id=pa.array([3, 4], pa.int32()),
        name=["c", "d"],
        day=pa.array([None, 1], pa.date32()),
        at=pa.array([None, 0], pa.timestamp("ms", "UTC")),
        price=price,
        tags=[None, ["x", "y"]],
    )
    avro.avro("country=FR/day=2", two, [{"id": 2, "country": "FR", "total": 9}])
    tables[0].committed("my.Orders", second, ["partition=0"])
    tables[0].committed("my.Orders", first, ["partition=0"])  # of another Kafka partition, which is behind
    tables[1].committed("my.Orders", two, ["country=FR/day=2"])
    for each in tables:
        each.close()
        assert waiting(each) == 0
    assert parquet.columns_of("partition=0") == ["id", "name", "day", "at", "price", "tags"]
    found = rows(
        hive_server,
        tmp_path,
        f"SELECT id, name, day, unix_timestamp(at), price, tags, partition "
        f"FROM {parquet.settings.database}.t_my_orders ORDER BY id",
        f"SELECT id, total, country, day FROM {avro.settings.database}.t_my_orders ORDER BY id",
    )
    assert found[0] == [
        ["1", "a", "None", "None", "None", "None", "0"],
        ["2", "None", "None", "None", "None", "None", "0"],
        ["3", "c", "None", "None", "None", "None", "0"],
        ["4", "d", "1970-01-02", "0", "5.00", "['x', 'y']", "0"],
    ]
    assert found[1] == [["1", "7", "D/E", "1"], ["2", "9", "FR", "2"]]


def test_data_goes_on_without_a_metastore_which_catches_up(
    make: Callable[..., Topic], hive_server: HiveServer, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make()
    tables = topic.tables()
    hive_server.kill()
    with caplog.at_level(logging.WARNING):
        for number in range(20):
            topic.parquet(f"partition={number}", id=[1])
            tables.committed("my.Orders", struct(1, ID), [f"partition={number}"])
        wait_for(lambda: any(sample.value > 1 for sample in tables.samples() if "failures" in sample.name))
    assert waiting(tables) == 21
    logged = [record.message for record in caplog.records if "Hive" in record.message]
    assert len(logged) == 1, logged
    assert "my.Orders is not up to date: Could not reach the database" in logged[0]
    hive_server.start()
    wait_for(lambda: waiting(tables) == 0)
    assert topic.partitions() == {f"partition={number}" for number in range(20)}
    tables.close()


def test_a_task_that_begins_finds_what_earlier_ones_could_not_tell(make: Callable[..., Topic]) -> None:
    topic = make(fields=("year", "month"))
    for month in ("01", "02", "03"):
        topic.parquet(f"year=2026/month={month}", id=[1])
    topic.parquet("stray", id=[1])
    tables = topic.tables()
    tables.committed("my.Orders", struct(1, ID), ["year=2026/month=03"])
    tables.close()
    assert topic.partitions() == {f"year=2026/month={month}" for month in ("01", "02", "03")}


def test_two_tasks_make_one_table(make: Callable[..., Topic]) -> None:
    topic = make()
    several = [topic.tables() for _ in range(3)]
    for number, tables in enumerate(several):
        topic.parquet(f"partition={number}", id=[1])
        tables.committed("my.Orders", struct(1, ID), [f"partition={number}"])
    for tables in several:
        wait_for(lambda tables=tables: waiting(tables) == 0)  # type: ignore[misc]
        tables.close()
    assert topic.partitions() == {"partition=0", "partition=1", "partition=2"}


def test_a_table_of_others_is_left_alone_and_told(make: Callable[..., Topic], caplog: pytest.LogCaptureFixture) -> None:
    topic = make()
    topic.parquet("partition=0", id=[1])
    first = topic.tables()
    first.committed("my.Orders", struct(1, ID), ["partition=0"])
    first.close()
    topic.fields = ("country",)
    other = topic.tables()
    with caplog.at_level(logging.WARNING):
        other.committed("my.Orders", struct(1, ID), ["country=DE"])
        other.close()
    assert "has the partition columns 'partition', and files come by 'country': drop the table" in caplog.text
    assert topic.partitions() == {"partition=0"}
