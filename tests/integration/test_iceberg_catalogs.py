"""The sink's catalog on real ones: tables, commits, marks, deletes, and commits whose answer is lost."""

from __future__ import annotations

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
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.worker.engine.driver import Spark
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
    ) -> None:
        config = {f"iceberg.catalog.{key}": value for key, value in properties.items()}
        config |= {f"iceberg.hadoop.{key}": value for key, value in hadoop.items()}
        self.catalog = JvmCatalog(CatalogSettings.of(config, {}), "sink", task)
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


class Metastore:
    """A metastore of its own, which may be started anew with or without locks, and writers to its tables."""

    def __init__(self, rest: IcebergRestServer, folder: Path) -> None:
        self._rest, self._folder, self._server = rest, folder, HiveServer(folder / "hive")
        self.writers: list[Writer] = []
        self._server.start()

    def restart(self, *, gives_locks: bool) -> None:
        """Start another process for the same tables, at another port."""
        self._server.kill()
        self._server = HiveServer(self._folder / "hive", gives_locks=gives_locks)
        self._server.start()

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def writer(self, task: int = 0, of: Writer | None = None, **hadoop: str) -> Writer:
        """A writer to a table of its own, or to that of another."""
        properties = {"type": "hive", "uri": self._server.uris, "warehouse": f"file://{self._folder}/warehouse"}
        bounds = {"iceberg.hive.lock-creation-timeout-ms": "1000", **hadoop}
        made = Writer(self._rest, properties, self._folder, task, bounds)
        if of is not None:
            made.name, made.table.name = of.name, of.name
        self.writers.append(made)
        return made


@pytest.fixture
def metastore(engine: Spark, iceberg_rest: IcebergRestServer, tmp_path: Path) -> Iterator[Metastore]:
    made = Metastore(iceberg_rest, tmp_path)
    yield made
    for writer in made.writers:
        writer.catalog.close()
    made.kill()


WITHOUT_LOCKS = {"iceberg.engine.hive.lock-enabled": "false"}
ADVICE = r"iceberg\.hadoop\.iceberg\.engine\.hive\.lock-enabled=false"


def test_a_metastore_that_gives_no_locks_is_told(metastore: Metastore) -> None:
    before = metastore.writer()
    state = before.create(**{"commit.retry.num-retries": "0"})  # each try of the metastore's takes a minute
    metastore.restart(gives_locks=False)
    with pytest.raises(LakeError, match=ADVICE):
        metastore.writer().create()
    after = metastore.writer(of=before)
    with pytest.raises(RetriableError, match=ADVICE):
        after.commit(state, None, 1, after.data(state, 1))
    assert after.catalog.marks(after.name, IDS) == {}
    without = metastore.writer(of=before, **WITHOUT_LOCKS)
    assert without.commit(state, None, 1, without.data(state, 1))
    assert without.ids() == [1]


def test_a_metastore_that_is_away_and_comes_back(metastore: Metastore) -> None:
    writer = metastore.writer()
    state = writer.create()
    assert writer.commit(state, None, 1, writer.data(state, 1))
    metastore.kill()
    with pytest.raises(RetriableError):
        writer.commit(state, 1, 2, writer.data(state, 2))
    metastore.start()
    assert writer.until_known(state, 1, 2, 2)
    anew = metastore.writer(of=writer)
    assert anew.catalog.marks(anew.name, IDS) == {ZERO: 2}
    assert anew.ids() == [1, 2]


@pytest.mark.parametrize("hadoop", [{}, WITHOUT_LOCKS], ids=["locks", "no-locks"])
def test_tasks_that_commit_at_once_to_a_metastore(metastore: Metastore, hadoop: dict[str, str]) -> None:
    """With or without locks no commit undoes another: metastores since 2.3.10 compare before they change."""
    first = metastore.writer(**hadoop)
    state = first.create()
    second = metastore.writer(1, first, **hadoop)
    failed: list[BaseException] = []

    def write(writer: Writer, partition: TopicPartition, begin: int) -> None:
        try:
            for number in range(6):
                part = TablePart(writer.name, state.uuid, (writer.data(state, begin + number),))
                commit = TableCommit(writer.name, (part,), {partition: number or None}, {partition: number + 1})
                assert writer.catalog.commit([commit], IDS)[writer.name]
        except BaseException as error:
            failed.append(error)

    threads = [Thread(target=write, args=args) for args in ((first, ZERO, 0), (second, ONE, 100))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not failed
    assert first.ids() == [*range(6), *range(100, 106)]
    assert first.catalog.marks(first.name, IDS) == {ZERO: 6, ONE: 6}


def test_a_nessie_server_that_is_away(engine: Spark, iceberg_rest: IcebergRestServer, tmp_path: Path) -> None:
    nessie = {"type": "nessie", "uri": f"http://127.0.0.1:{held_port()}/api/v2", "warehouse": f"file://{tmp_path}"}
    with opened(lambda: Writer(iceberg_rest, nessie, tmp_path)) as writer, pytest.raises(RetriableError):
        writer.catalog.load(writer.name)
