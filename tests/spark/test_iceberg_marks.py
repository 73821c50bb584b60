"""The marks of Iceberg's tables through other people's changes, and what is left of commits that fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg import jvm_lake
from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.tables import TableState
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.jvm.java_compiler import compiled
from headrace.plugins.offsets import TopicPartition
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.gateway import installed_spark
from tests.integration.worker_process import eventually
from tests.spark.iceberg_tables import (
    IDS,
    ONE,
    ROWS,
    SCHEMA,
    ZERO,
    OtherCatalog,
    change,
    intents,
    opened,
    parquet,
    properties,
    snapshots,
    written,
)

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def given(tmp_path: Path, engine: Spark) -> dict[str, str]:
    return properties("hadoop", tmp_path)


@pytest.fixture
def catalog(given: dict[str, str]) -> Iterator[JvmCatalog]:
    made = opened(given)
    yield made
    made.close()


@pytest.fixture
def table(catalog: JvmCatalog) -> TableState:
    return catalog.create("db.t", SCHEMA, [], ["id"], {"format-version": "2"})


@pytest.fixture
def other(given: dict[str, str]) -> OtherCatalog:
    return OtherCatalog(given)


def append(given: dict[str, str], table: TableState, folder: Path, count: int = 1, **of: Any) -> None:
    """Let another connector append."""
    theirs = opened(given, "theirs", **of)
    begin = theirs.marks("db.t", IDS).get(ZERO)
    for _ in range(count):
        end = (begin or 0) + 1
        assert theirs.commit([change(table, begin, end, written(folder, table, [(100, "x")]))], IDS) == {"db.t": True}
        begin = end
    theirs.close()


def expire(java: Any, keep: int = 1) -> None:
    java.expireSnapshots().expireOlderThan(1 << 60).retainLast(keep).commit()


# -- marks ------------------------------------------------------------------------------------------------------------


def test_marks_survive_other_peoples_snapshots_and_their_expiry(
    catalog: JvmCatalog, table: TableState, given: dict[str, str], other: OtherCatalog, tmp_path: Path
) -> None:
    catalog.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS)
    catalog.commit([change(table, None, 9, at=ONE)], IDS)
    append(given, table, tmp_path, 3)
    assert catalog.marks("db.t", IDS) == {ZERO: 2, ONE: 9}
    java = other.table("db.t")
    with other.own_classes():
        expire(java)
    assert len(snapshots(java)) == 1
    assert "headrace.offsets.sink" not in snapshots(java)[0]
    assert catalog.marks("db.t", IDS) == {ZERO: 2, ONE: 9}
    assert catalog.commit([change(table, None, 1)], IDS) == {"db.t": False}
    assert catalog.commit([change(table, 2, 3)], IDS) == {"db.t": True}
    assert catalog.marks("db.t", IDS) == {ZERO: 3, ONE: 9}


def test_a_rollback_takes_marks_back(
    catalog: JvmCatalog, table: TableState, given: dict[str, str], other: OtherCatalog, tmp_path: Path
) -> None:
    append(given, table, tmp_path, 2)
    catalog.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS)
    catalog.commit([change(table, 2, 4, written(tmp_path, table, ROWS))], IDS)
    java = other.table("db.t")
    ids = [one.snapshotId() for one in java.snapshots()]
    with other.own_classes():
        java.manageSnapshots().rollbackTo(ids[2]).commit()
    assert catalog.marks("db.t", IDS) == {ZERO: 2}
    with other.own_classes():
        java.manageSnapshots().rollbackTo(ids[1]).commit()
    assert catalog.marks("db.t", IDS) == {}
    with other.own_classes():
        expire(java)  # ids[1] is left, whose parent is gone: the property is of a later snapshot
    assert [one.snapshotId() for one in java.snapshots()] == [ids[1]]
    assert catalog.marks("db.t", IDS) == {}
    assert catalog.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS) == {"db.t": True}


def test_a_branch_has_marks_of_its_own_from_where_it_begins(
    catalog: JvmCatalog, table: TableState, given: dict[str, str], other: OtherCatalog, tmp_path: Path
) -> None:
    catalog.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS)
    audit = opened(given, branch="audit")
    assert audit.marks("db.t", IDS) == {ZERO: 2}
    assert audit.commit([change(table, 2, 3, written(tmp_path, table, [(3, "c")]))], IDS) == {"db.t": True}
    assert (audit.marks("db.t", IDS), catalog.marks("db.t", IDS)) == ({ZERO: 3}, {ZERO: 2})
    assert other.rows(other.table("db.t")) == ROWS
    append(given, table, tmp_path, 2, branch="audit")
    append(given, table, tmp_path, 2)
    java = other.table("db.t")
    with other.own_classes():
        expire(java)
    assert (audit.marks("db.t", IDS), catalog.marks("db.t", IDS)) == ({ZERO: 3}, {ZERO: 2})
    audit.close()


def test_a_topic_that_was_made_again_begins_anew(catalog: JvmCatalog, table: TableState) -> None:
    catalog.commit([change(table, None, 5)], IDS)
    again = {"t": "another-id"}
    assert catalog.marks("db.t", again) == {}
    assert catalog.commit([change(table, None, 1)], again) == {"db.t": True}
    assert catalog.marks("db.t", again) == {ZERO: 1}
    assert catalog.marks("db.t", IDS) == {}
    assert catalog.commit([change(table, 5, 6)], IDS) == {"db.t": False}


def test_an_operator_sets_and_forgets_marks(catalog: JvmCatalog, table: TableState) -> None:
    catalog.commit([change(table, None, 5)], IDS)
    catalog.commit([change(table, None, 6, at=ONE)], IDS)
    catalog.set_marks("db.t", {"u": "id-of-u"}, {ZERO._replace(topic="u"): 3})
    assert catalog.marks("db.t", IDS) == {ZERO: 5, ONE: 6, ZERO._replace(topic="u"): 3}
    catalog.set_marks("db.t", {"t": "id-of-t"}, {ZERO: 2})
    assert catalog.marks("db.t", IDS) == {ZERO: 2, ZERO._replace(topic="u"): 3}
    catalog.set_marks("db.t", IDS, None)
    assert catalog.marks("db.t", IDS) == {}
    assert catalog.commit([change(table, 2, 3)], IDS) == {"db.t": False}


def test_a_racing_commit_of_the_same_offsets_is_in_once(
    given: dict[str, str], table: TableState, tmp_path: Path
) -> None:
    answers: list[bool] = []
    together = threading.Barrier(2)

    def run() -> None:
        mine = opened(given)
        file = written(tmp_path, table, ROWS)
        together.wait(60)
        answers.append(mine.commit([change(table, None, 2, file)], IDS)["db.t"])
        mine.close()

    threads = [threading.Thread(target=run) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(120)
    assert sorted(answers) == [False, True]
    assert len(parquet(given)) == 1
    assert not intents(given)


# -- commits that fail ------------------------------------------------------------------------------------------------


@pytest.fixture
def flaky(given: dict[str, str], table: TableState, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Opens the catalog so that its commits fail in these ways.

    It has classes of its own, so `other` has to be made before.
    """
    folder = Path(__file__).parent / "flaky_iceberg"
    own = jvm_lake.lake_jars(False)
    sparks = sorted((installed_spark() / "jars").glob("*.jar"))
    monkeypatch.setattr(jvm_lake, "_loaders", WeakKeyDictionary())
    monkeypatch.setattr(jvm_lake, "lake_jars", lambda aws: [*own, compiled("flaky", folder, [*sparks, *own])])

    def opened_so(modes: str, task: int = 0) -> JvmCatalog:
        made = opened(given, task=task)
        told = {"warehouse": given["warehouse"], "catalog-impl": "headrace.lake.FlakyCatalog", "flaky": modes}
        made._lake._opening = {**made._lake._opening, "properties": told}
        return made

    return opened_so


@pytest.mark.parametrize("mode", ["lost", "taken", "memory"])
def test_a_commit_whose_answer_was_lost_is_found(
    other: OtherCatalog, flaky: Any, table: TableState, given: dict[str, str], tmp_path: Path, mode: str
) -> None:
    mine = flaky(mode)
    assert mine.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS) == {"db.t": True}
    assert mine.marks("db.t", IDS) == {ZERO: 2}
    assert other.rows(other.table("db.t")) == ROWS
    assert len(parquet(given)) == 1
    assert not intents(given)


def test_a_rewrite_whose_answer_was_lost_is_found(
    other: OtherCatalog, flaky: Any, catalog: JvmCatalog, table: TableState, given: dict[str, str], tmp_path: Path
) -> None:
    for begin, row in ((None, ROWS[0]), (1, ROWS[1])):
        catalog.commit([change(table, begin, (begin or 0) + 1, written(tmp_path, table, [row]))], IDS)
    done = flaky("taken").ask("db.t", "compact", files=2, bytes=1 << 20, snapshots_ms=0)
    assert done["replaced"] == 2
    assert other.rows(other.table("db.t")) == ROWS
    assert not intents(given)


def test_a_commit_that_is_refused_ends_the_task_and_leaves_no_file(
    flaky: Any, table: TableState, given: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(LakeError, match="this user may not"):
        flaky("refused").commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS)
    assert not parquet(given)
    assert not intents(given)


def test_a_commit_is_not_tried_for_ever_if_nobody_knows_that_it_was_refused(
    flaky: Any, table: TableState, given: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(LakeError, match=r"not known if the commit was made: .*this user may not"):
        flaky("denied").commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS)
    assert len(parquet(given)) == len(intents(given)) == 1


def test_a_store_that_is_busy_is_asked_again(flaky: Any, table: TableState) -> None:
    mine = flaky("503,429,403")
    for status in ("503", "429"):
        with pytest.raises(RetriableError, match=status):
            mine.load("db.t")
    with pytest.raises(LakeError, match="403"):
        mine.load("db.t")
    assert mine.load("db.t").uuid == table.uuid


def test_a_conflict_is_tried_again(flaky: Any, table: TableState, given: dict[str, str], tmp_path: Path) -> None:
    mine = flaky("failed,failed,failed,failed,failed,failed")
    assert mine.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS) == {"db.t": True}
    assert len(parquet(given)) == 1


@pytest.mark.parametrize("at", [ZERO, ONE])
def test_marks_are_looked_at_again_when_a_commit_is_overtaken(
    flaky: Any, catalog: JvmCatalog, table: TableState, given: dict[str, str], tmp_path: Path, at: TopicPartition
) -> None:
    pause, answers = tmp_path / "pause", list[bool]()
    mine = flaky(str(pause))
    file = written(tmp_path, table, ROWS)

    def run() -> None:
        answers.append(mine.commit([change(table, None, 2, file)], IDS)["db.t"])

    thread = threading.Thread(target=run)
    thread.start()
    eventually(pause.exists, 60)
    assert catalog.commit([change(table, None, 3, written(tmp_path, table, ROWS), at=at)], IDS) == {"db.t": True}
    pause.unlink()
    thread.join(120)
    is_other = at == ONE
    assert answers == [is_other]
    assert catalog.marks("db.t", IDS) == ({ZERO: 2, ONE: 3} if is_other else {ZERO: 3})
    assert len(parquet(given)) == 1 + is_other
    assert not intents(given)


def test_what_may_yet_come_is_kept_until_it_cannot_come_any_more(
    flaky: Any, table: TableState, given: dict[str, str], tmp_path: Path
) -> None:
    mine = flaky("never")
    with pytest.raises(RetriableError, match="connection broke"):
        mine.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS)
    assert len(parquet(given)) == len(intents(given)) == 1
    left = parquet(given)
    assert mine.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS) == {"db.t": True}
    assert len(parquet(given)) == 1
    assert not left & parquet(given)
    assert not intents(given)


def test_the_next_owner_deletes_the_files_of_a_killed_one(
    flaky: Any, catalog: JvmCatalog, table: TableState, given: dict[str, str], tmp_path: Path
) -> None:
    foreign = Path(given["warehouse"], "db", "t", "data", "foreign.parquet")
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"another's")
    dead = flaky("never,never", task=3)
    with pytest.raises(RetriableError):
        dead.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS)
    with pytest.raises(RetriableError):
        dead.commit([change(table, None, 7, written(tmp_path, table, ROWS), at=ONE)], IDS)
    assert len(intents(given)) == 2
    assert catalog.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS) == {"db.t": True}
    assert len(intents(given)) == 1  # the other partition's owner may be alive
    assert len(parquet(given)) == 3
    assert catalog.commit([change(table, None, 7, written(tmp_path, table, ROWS), at=ONE)], IDS) == {"db.t": True}
    assert not intents(given)
    assert len(parquet(given)) == 3
    assert foreign.exists()


def test_an_intent_deletes_nothing_out_of_bounds(table: TableState, given: dict[str, str], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("another's")
    intent = {"commit": "gone", "until": 0, "after": 0, "files": [str(secret)]}
    folder = Path(given["warehouse"], "db", "t", "metadata", "headrace-sink")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gone.json").write_text(json.dumps(intent))
    bounded = opened(given)
    bounded._lake._opening = {**bounded._lake._opening, "allowed_paths": [given["warehouse"]]}
    assert bounded.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS) == {"db.t": True}
    bounded.close()
    assert not intents(given)
    assert secret.exists()


def test_a_warehouse_without_a_scheme_is_within_bounds_if_it_is_local(given: dict[str, str], tmp_path: Path) -> None:
    mine = opened(given)
    mine._lake._opening = {**mine._lake._opening, "allowed_paths": [str(tmp_path / "other")]}
    with pytest.raises(LakeError, match=r"lies outside of file\.allowed\.paths"):
        mine.load("db.t")


def test_files_of_a_commit_that_is_in_the_table_stay(
    catalog: JvmCatalog, table: TableState, given: dict[str, str], other: OtherCatalog, tmp_path: Path
) -> None:
    catalog.commit([change(table, None, 2, written(tmp_path, table, ROWS))], IDS)
    append(given, table, tmp_path, 2)
    java = other.table("db.t")
    with other.own_classes():
        (name,) = {one.location() for one in java.snapshots().iterator().next().addedDataFiles(java.io())}
        expire(java)  # no summary tells of the commit any more
    lost = str(Path(name).with_name("lost.parquet"))
    Path(lost.removeprefix("file:")).write_bytes(b"")
    begins = {"id-of-t": {"topic": "t", "offsets": {"0": None}}}
    intent = {"commit": "gone", "branch": "main", "after": 0, "begins": begins, "files": [name, lost]}
    folder = Path(given["warehouse"], "db", "t", "metadata", "headrace-sink")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "gone.json").write_text(json.dumps(intent))
    (folder / "half.json").write_text('{"commit": "h')
    theirs = folder / "theirs.json"
    theirs.write_text(json.dumps({**intent, "connector": "si/nk", "files": [name]}))
    mine = opened(given)
    assert mine.commit([change(table, 2, 3)], IDS) == {"db.t": True}
    mine.close()
    assert not (folder / "gone.json").exists()
    assert theirs.exists()
    assert not Path(lost.removeprefix("file:")).exists()
    assert len(other.rows(other.table("db.t"))) == 4
