"""The sink's catalog on real ones: tables, commits, marks, deletes, and commits whose answer is lost."""

from __future__ import annotations

import queue
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.catalog_settings import CatalogSettings
from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.parts import Content, TableCommit, TablePart, WrittenFile
from headrace.connectors.lake.iceberg.schemas import AddColumn, Field, Struct
from headrace.connectors.lake.iceberg.tables import TableState
from headrace.plugins.contracts import InterruptedBy, uninterrupted
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.worker.engine.driver import Spark
from headrace.worker.tasks.interrupts import Interrupts
from tests.held_ports import held_port
from tests.integration.databases import PASSWORD, USER, Database
from tests.integration.hdfs_server import USER as HDFS_USER
from tests.integration.hdfs_server import HdfsServer
from tests.integration.hive_server import HiveServer
from tests.integration.iceberg_rest_server import IcebergRestServer
from tests.integration.iceberg_tables import LakeTable
from tests.integration.s3_server import REGION, S3Server
from tests.integration.worker_process import eventually

pytestmark = [pytest.mark.spark, pytest.mark.long]

SCHEMA = Struct((Field(1, "id", "long", required=True), Field(2, "name", "string")))
IDS = {"t": "id-of-t"}
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
CATALOGS = ("hadoop", "hdfs", "hive", "sqlite", "postgresql", "rest", "rest-s3")
Properties = dict[str, str]


@pytest.fixture
def properties(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Properties]:
    """A catalog's properties, by the name of its parameter."""
    get, warehouse = request.getfixturevalue, f"file://{tmp_path}/warehouse"
    match request.param:
        case "hadoop":
            yield {"type": "hadoop", "warehouse": warehouse}
        case "hdfs":
            server: HdfsServer = get("hdfs_server")
            yield {"type": "hadoop", "warehouse": f"{server.url}/user/{HDFS_USER}/{uuid4().hex}"}
        case "hive":
            hive: HiveServer = get("hive_server")
            yield {"type": "hive", "uri": hive.uris, "warehouse": warehouse}
        case "sqlite":
            yield {"type": "jdbc", "uri": f"jdbc:sqlite:{tmp_path}/catalog.db", "warehouse": warehouse}
        case "postgresql":
            database: Database = get("postgresql")
            login = {"jdbc.user": USER, "jdbc.password": PASSWORD}
            yield {"type": "jdbc", "uri": database.jdbc_url, "warehouse": warehouse, **login}
        case "rest":
            rest: IcebergRestServer = get("iceberg_rest")
            yield dict(rest.properties)
        case "rest-s3":
            in_bucket = s3_properties(get("s3_server"))
            server_on_s3 = IcebergRestServer(tmp_path / "rest", in_bucket)
            server_on_s3.start()
            yield {**in_bucket, **server_on_s3.properties}
            server_on_s3.kill()


def s3_properties(server: S3Server) -> Properties:
    """A bucket of its own."""
    return {
        "warehouse": f"s3://{server.bucket()}/",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": server.endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": server.access_key,
        "s3.secret-access-key": server.secret_key,
        "client.region": REGION,
    }


class Writer:
    """A task's catalog and one table in it, and the table as others see it."""

    def __init__(
        self,
        server: IcebergRestServer,
        properties: Mapping[str, str],
        folder: Path,
        task: int = 0,
        hadoop: Mapping[str, str] = MappingProxyType({}),
        by: InterruptedBy = uninterrupted,
    ) -> None:
        config = {f"iceberg.catalog.{key}": value for key, value in properties.items()}
        config |= {f"iceberg.hadoop.{key}": value for key, value in hadoop.items()}
        self.catalog = JvmCatalog(CatalogSettings.of(config, {}), "sink", task, interrupted_by=by)
        self.folder, self.name = folder, f"db_{uuid4().hex[:8]}.t"
        self.table = LakeTable(server, properties, self.name)

    def create(self, *partition_by: str, **properties: str) -> TableState:
        """Create the table, of format version 2."""
        return self.catalog.create(self.name, SCHEMA, partition_by, ["id"], {"format-version": "2", **properties})

    def data(self, state: TableState, *ids: int) -> WrittenFile:
        """Write rows to a file, of the unpartitioned spec."""
        columns = {"id": pa.array(ids, pa.int64()), "name": pa.array([f"row {one}" for one in ids])}
        return self._file(state, Content.DATA, columns)

    def deletes(self, state: TableState, *ids: int) -> WrittenFile:
        """Write keys to a file of deletes."""
        return self._file(state, Content.EQUALITY_DELETES, {"id": pa.array(ids, pa.int64())})

    def _file(self, state: TableState, content: Content, columns: Mapping[str, pa.Array]) -> WrittenFile:
        numbers = {"id": "1", "name": "2"}
        fields = [
            pa.field(name, column.type, metadata={"PARQUET:field_id": numbers[name]})
            for name, column in columns.items()
        ]
        path = self.folder / f"{uuid4().hex}.parquet"
        pq.write_table(pa.table(list(columns.values()), pa.schema(fields)), path)
        keys = () if content is Content.DATA else (1,)
        return WrittenFile(str(path), content, len(columns["id"]), state.spec.id, (), keys)

    def commit(self, state: TableState, begin: int | None, end: int, *files: WrittenFile) -> bool:
        """Commit the files with the marks of partition 0."""
        parts = (TablePart(self.name, state.uuid, files),) if files else ()
        commit = TableCommit(self.name, parts, {ZERO: begin}, {ZERO: end})
        return self.catalog.commit([commit], IDS)[self.name]

    def until_known(self, state: TableState, begin: int | None, end: int, *ids: int) -> bool:
        """Commit as a task does: again while the catalog may answer later."""

        def answer() -> tuple[bool] | None:
            try:
                return (self.commit(state, begin, end, self.data(state, *ids)),)
            except RetriableError:
                return None

        (found,) = eventually(answer, 120)
        return bool(found)

    def ids(self) -> list[int]:
        """The rows in the table."""
        return [row["id"] for row in self.table.rows("id")]


@contextmanager
def opened(make: Callable[[], Writer]) -> Iterator[Writer]:
    """The writer, closed at the end."""
    writer = make()
    try:
        yield writer
    finally:
        writer.catalog.close()


@pytest.fixture
def writer(engine: Spark, iceberg_rest: IcebergRestServer, properties: Properties, tmp_path: Path) -> Iterator[Writer]:
    with opened(lambda: Writer(iceberg_rest, properties, tmp_path)) as found:
        yield found


@pytest.fixture
def on_rest(engine: Spark, iceberg_rest: IcebergRestServer, tmp_path: Path) -> Iterator[Writer]:
    """A writer of the REST catalog."""
    with opened(lambda: Writer(iceberg_rest, iceberg_rest.properties, tmp_path)) as found:
        yield found


@pytest.mark.parametrize("properties", CATALOGS, indirect=True)
def test_a_table_of_each_catalog(writer: Writer) -> None:
    assert writer.catalog.load(writer.name) is None
    state = writer.create()
    assert writer.catalog.load(writer.name) == state
    assert writer.create() == state
    assert writer.commit(state, None, 3, writer.data(state, 1, 2, 3))
    assert writer.ids() == [1, 2, 3]
    assert writer.catalog.marks(writer.name, IDS) == {ZERO: 3}
    assert not writer.commit(state, None, 3, writer.data(state, 1, 2, 3)), "the marks had moved"
    assert writer.commit(state, 3, 5, writer.deletes(state, 2, 4), writer.data(state, 4))
    assert writer.ids() == [1, 3, 4]
    evolved = writer.catalog.evolve(writer.name, [AddColumn((), "more", "int")])
    assert [field.name for field in evolved.schema.fields] == ["id", "name", "more"]
    assert writer.commit(evolved, 5, 6, writer.data(evolved, 6))
    assert writer.table.rows("id")[-1] == {"id": 6, "name": "row 6", "more": None}
    assert writer.catalog.marks(writer.name, IDS) == {ZERO: 6}
    writer.catalog.set_marks(writer.name, IDS, None)
    assert writer.catalog.marks(writer.name, IDS) == {}


@pytest.mark.parametrize("properties", ["hadoop", "sqlite", "rest"], indirect=True)
def test_what_is_committed_in_vain_leaves_no_file(writer: Writer) -> None:
    state = writer.create()
    assert writer.commit(state, None, 3, writer.data(state, 1))
    assert not writer.commit(state, 2, 4, writer.data(state, 2))
    assert not [path for path in writer.table.orphans() if "headrace" in path]


@pytest.mark.parametrize(
    "fault",
    [
        *("504", "cut", "applied-504", "applied-cut"),
        *(pytest.param(fault, marks=pytest.mark.soak) for fault in ("409", "503", "500", "applied-500")),
    ],
)
def test_an_answer_that_is_lost(on_rest: Writer, iceberg_rest: IcebergRestServer, fault: str) -> None:
    state = on_rest.create()
    assert on_rest.commit(state, None, 1, on_rest.data(state, 1))
    iceberg_rest.next_commits(fault)
    on_rest.until_known(state, 1, 2, 2)
    iceberg_rest.next_commits(fault, fault)
    on_rest.until_known(state, 2, 3, 3)
    iceberg_rest.next_commits()
    assert on_rest.catalog.marks(on_rest.name, IDS) == {ZERO: 3}
    assert on_rest.commit(state, 3, 4, on_rest.data(state, 4))
    assert on_rest.ids() == [1, 2, 3, 4]


def test_a_commit_that_arrives_after_anothers(on_rest: Writer, iceberg_rest: IcebergRestServer) -> None:
    state = on_rest.create()
    assert on_rest.commit(state, None, 1, on_rest.data(state, 1))
    iceberg_rest.next_commits("hold")
    answers: list[bool] = []
    zombie = Thread(target=lambda: answers.append(on_rest.commit(state, 1, 3, on_rest.data(state, 2, 3))))
    zombie.start()
    eventually(iceberg_rest.held, 60)
    with opened(lambda: Writer(iceberg_rest, iceberg_rest.properties, on_rest.folder, task=1)) as other:
        other.name = on_rest.name
        # A catalog of its own process would not wait for the zombie's lock.
        rows = other.data(state, 2)
        took = Thread(target=lambda: answers.append(other.commit(state, 1, 2, rows)))
        took.start()
        iceberg_rest.next_commits()
        zombie.join(60)
        took.join(60)
    assert sorted(answers) == [False, True]
    assert on_rest.ids() in ([1, 2], [1, 2, 3])


def test_another_partitions_marks_do_not_disturb(on_rest: Writer, iceberg_rest: IcebergRestServer) -> None:
    state = on_rest.create()
    with opened(lambda: Writer(iceberg_rest, iceberg_rest.properties, on_rest.folder, task=1)) as other:
        other.name = on_rest.name
        for number in range(5):
            begin = number or None
            assert on_rest.commit(state, begin, number + 1, on_rest.data(state, 2 * number))
            part = TablePart(on_rest.name, state.uuid, (other.data(state, 2 * number + 1),))
            commit = TableCommit(on_rest.name, (part,), {ONE: begin}, {ONE: number + 1})
            assert other.catalog.commit([commit], IDS)[on_rest.name]
    assert on_rest.catalog.marks(on_rest.name, IDS) == {ZERO: 5, ONE: 5}
    assert on_rest.ids() == list(range(10))


def test_a_catalog_that_is_away_and_comes_back(engine: Spark, tmp_path: Path) -> None:
    server = IcebergRestServer(tmp_path / "rest")
    server.start()
    try:
        with opened(lambda: Writer(server, server.properties, tmp_path)) as writer:
            state = writer.create()
            server.kill()
            with pytest.raises(RetriableError):
                writer.commit(state, None, 1, writer.data(state, 1))
            server.start()
            writer.until_known(state, None, 1, 1)
            assert writer.ids() == [1]
            assert writer.catalog.marks(writer.name, IDS) == {ZERO: 1}
    finally:
        server.kill()


def test_a_login_that_ends_is_made_again(engine: Spark, tmp_path: Path) -> None:
    server = IcebergRestServer(tmp_path / "rest", token_s=2)
    server.start()
    try:
        with opened(lambda: Writer(server, server.properties, tmp_path)) as writer:
            state = writer.create()
            for number in range(8):
                assert writer.until_known(state, number or None, number + 1, number)
                eventually(lambda: writer.catalog.load(writer.name), 60, every_s=0.5)
            assert writer.ids() == list(range(8))
    finally:
        server.kill()


def test_a_wrong_login_is_named_and_hidden(engine: Spark, iceberg_rest: IcebergRestServer, tmp_path: Path) -> None:
    properties = {**iceberg_rest.properties, "credential": "somebody:wr0ng-secret"}
    with opened(lambda: Writer(iceberg_rest, properties, tmp_path)) as writer:
        with pytest.raises(LakeError, match=r"iceberg\.catalog\.") as told:
            writer.catalog.load(writer.name)
        assert "wr0ng" not in str(told.value)


@pytest.fixture
def metastore(
    engine: Spark, iceberg_rest: IcebergRestServer, hive_server: HiveServer, tmp_path: Path
) -> Iterator[Callable[..., Writer]]:
    """Makes writers to a table of their own, or to that of another, in a metastore that may be killed."""
    made: list[Writer] = []

    def writer(task: int = 0, of: Writer | None = None) -> Writer:
        one = Writer(iceberg_rest, in_hive(hive_server, tmp_path), tmp_path, task)
        if of is not None:
            one.name, one.table.name = of.name, of.name
        made.append(one)
        return one

    yield writer
    for one in made:
        one.catalog.close()


def in_hive(server: HiveServer, folder: Path) -> Properties:
    return {"type": "hive", "uri": server.uris, "warehouse": f"file://{folder}/warehouse"}


ADVICE = r"iceberg\.hadoop\.iceberg\.engine\.hive\.lock-enabled=false"
NO_LOCKS = {"engine.hive.lock-enabled": "false"}
"""Of a table: then all its writers do the same."""


def test_a_metastore_that_gives_no_locks_is_told(
    engine: Spark, iceberg_rest: IcebergRestServer, tmp_path: Path
) -> None:
    server = HiveServer(tmp_path / "hive", gives_locks=False)
    server.start()
    soon = {"iceberg.hive.lock-creation-timeout-ms": "1"}  # two tries of the library's all the same

    def opened_with(**hadoop: str) -> Writer:
        return Writer(iceberg_rest, in_hive(server, tmp_path), tmp_path, hadoop={**soon, **hadoop})

    try:
        with opened(lambda: opened_with(**{"iceberg.engine.hive.lock-enabled": "false"})) as without:
            state = without.create()
            with opened(opened_with) as locking:
                with pytest.raises(RetriableError, match=rf"{locking.name}, create: .* no lock\. .*{ADVICE}"):
                    locking.create()
                locking.name = without.name
                with pytest.raises(RetriableError, match=rf"{without.name}, commit: .* no lock\. .*{ADVICE}"):
                    locking.commit(state, None, 1, locking.data(state, 1))
                with pytest.raises(LakeError, match=ADVICE):
                    locking.catalog.evolve(without.name, [AddColumn((), "more", "int")])
                with pytest.raises(LakeError, match=ADVICE):
                    locking.catalog.set_marks(without.name, IDS, None)
            assert without.catalog.marks(without.name, IDS) == {}
            assert without.commit(state, None, 1, without.data(state, 1))
            assert without.ids() == [1]
            assert not [path for path in without.table.orphans() if "headrace" in path]
    finally:
        server.kill()


def test_a_lock_that_another_holds_is_told_and_waited_for(
    engine: Spark, iceberg_rest: IcebergRestServer, hive_server: HiveServer, tmp_path: Path
) -> None:
    """Also that of a table which is not there yet."""
    soon = {"iceberg.hive.lock-timeout-ms": "300"}
    told = r"lock \d+ of somebody on elsewhere, last heard of at 2.*hive\.txn\.timeout.* It is tried again"
    with opened(lambda: Writer(iceberg_rest, in_hive(hive_server, tmp_path), tmp_path, hadoop=soon)) as writer:
        writer.table.lock()
        with pytest.raises(RetriableError, match=f"{writer.name}, create: .*{told}"):
            writer.create()
        assert writer.table.locks() == [["ACQUIRED", "somebody"]], "its place in the queue is given up"
        writer.table.unlock()
        state = writer.create()
        writer.table.lock()
        for _ in range(4):
            with pytest.raises(RetriableError, match=f"{writer.name}, commit: .*{told}"):
                writer.commit(state, None, 1, writer.data(state, 1))
        writer.table.unlock()
        assert writer.commit(state, None, 1, writer.data(state, 1))
        assert writer.ids() == [1]


def test_a_metastore_that_is_away_and_comes_back(metastore: Callable[..., Writer], hive_process: HiveServer) -> None:
    writer = metastore()
    state = writer.create()
    assert writer.commit(state, None, 1, writer.data(state, 1))
    hive_process.kill()
    with pytest.raises(RetriableError):
        writer.commit(state, 1, 2, writer.data(state, 2))
    with pytest.raises(RetriableError):
        writer.catalog.load(writer.name)
    hive_process.start()
    writer.until_known(state, 1, 2, 2)
    anew = metastore(of=writer)
    assert anew.catalog.marks(anew.name, IDS) == {ZERO: 2}
    assert anew.ids() == [1, 2]


@pytest.mark.parametrize("own", [{}, NO_LOCKS], ids=["locks", "no-locks"])
def test_two_tasks_and_another_process_on_one_table(metastore: Callable[..., Writer], own: dict[str, str]) -> None:
    """With or without locks no commit undoes another: metastores since 2.3.10 compare before they change."""
    first = metastore()
    state = first.create(**own)
    second = metastore(1, first)
    failed: list[BaseException] = []

    def write(writer: Writer, partition: TopicPartition, begin: int) -> None:
        try:
            for number in range(4):
                part = TablePart(writer.name, state.uuid, (writer.data(state, begin + number),))
                commit = TableCommit(writer.name, (part,), {partition: number or None}, {partition: number + 1})
                assert writer.catalog.commit([commit], IDS)[writer.name]
        except BaseException as error:
            failed.append(error)

    tasks = [Thread(target=write, args=args) for args in ((first, ZERO, 0), (second, ONE, 100))]
    for task in tasks:
        task.start()
    touched = 0
    while any(task.is_alive() for task in tasks) or not touched:
        touched += first.table.touch()
    for task in tasks:
        task.join(300)
    assert not failed
    assert first.ids() == [*range(4), *range(100, 104)]
    assert first.catalog.marks(first.name, IDS) == {ZERO: 4, ONE: 4}
    known = first.catalog.load(first.name)
    assert known is not None
    assert len([key for key in known.properties if key.startswith("touched.")]) == touched


def test_a_commit_that_was_given_up_counts_once(engine: Spark, iceberg_rest: IcebergRestServer, tmp_path: Path) -> None:
    interrupts, told = Interrupts("a task"), queue.SimpleQueue[Exception]()
    with opened(lambda: Writer(iceberg_rest, iceberg_rest.properties, tmp_path)) as writer:
        state = writer.create()
        assert writer.commit(state, None, 1, writer.data(state, 1))
        with opened(lambda: Writer(iceberg_rest, iceberg_rest.properties, tmp_path, 1, by=interrupts.by)) as former:
            former.name = writer.name

            def commit() -> None:
                try:
                    former.commit(state, 1, 2, former.data(state, 2))
                except RetriableError as error:
                    told.put(error)

            iceberg_rest.next_commits("hold")
            blocked = Thread(target=commit)
            blocked.start()
            eventually(iceberg_rest.held, 60)
            interrupts.begin()
            assert "its end was asked for. It is tried again" in str(told.get(timeout=60))
            blocked.join(60)
        iceberg_rest.next_commits()  # it may come now
        writer.until_known(state, 1, 2, 2)
        assert writer.catalog.marks(writer.name, IDS) == {ZERO: 2}
        assert writer.ids() == [1, 2]


SILENT = {
    "hive": ("hive", "thrift://127.0.0.1:{}", "file:///tmp/lake"),
    "postgresql": ("jdbc", "jdbc:postgresql://127.0.0.1:{}/lake", "file:///tmp/lake"),
    "rest": ("rest", "http://127.0.0.1:{}", "file:///tmp/lake"),
    "hdfs": ("hadoop", "", "hdfs://127.0.0.1:{}/lake"),
    "nessie": ("nessie", "http://127.0.0.1:{}/api/v2", "file:///tmp/lake"),
}


@pytest.mark.parametrize("kind", SILENT)
def test_a_catalog_that_does_not_answer_is_given_up(engine: Spark, kind: str) -> None:
    """In time, and as soon as its task has to end, also while it is opened."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        catalog_type, uri, warehouse = (one.format(server.getsockname()[1]) for one in SILENT[kind])
        config = {
            "iceberg.catalog.type": catalog_type,
            "iceberg.catalog.uri": uri,
            "iceberg.catalog.warehouse": warehouse,
        }
        settings = CatalogSettings.of({key: value for key, value in config.items() if value}, {})
        interrupts = Interrupts("a task")
        patient = JvmCatalog(settings, "sink", 0, interrupted_by=interrupts.by)
        told = queue.SimpleQueue[Exception]()

        def load() -> None:
            try:
                patient.load("db.t")
            except RetriableError as error:
                told.put(error)

        blocked = Thread(target=load)
        blocked.start()
        server.settimeout(120)
        connection, _ = server.accept()
        interrupts.begin()
        assert "its end was asked for" in str(told.get(timeout=30))
        blocked.join(30)
        patient.close()
        hasty = JvmCatalog(settings, "sink", 0, limit_s=2)
        with pytest.raises(RetriableError, match="no answer came within 2 s"):
            hasty.load("db.t")
        hasty.close()
        connection.close()


@pytest.mark.parametrize(("kind", "uri"), [("hive", "thrift://127.0.0.1:{}"), ("nessie", "http://127.0.0.1:{}/api/v2")])
def test_a_catalog_that_is_away_at_the_start(engine: Spark, tmp_path: Path, kind: str, uri: str) -> None:
    config = {"type": kind, "uri": uri.format(held_port()), "warehouse": f"file://{tmp_path}"}
    settings = CatalogSettings.of({f"iceberg.catalog.{key}": value for key, value in config.items()}, {})
    catalog = JvmCatalog(settings, "sink", 0)
    with pytest.raises(RetriableError, match="It is tried again") as told:
        catalog.load("db.t")
    catalog.close()
    assert "\n\tat " not in str(told.value)
