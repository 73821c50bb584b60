"""Small files and deletes of Iceberg's tables become data, beside commits; old snapshots are expired."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg.catalog_settings import CatalogSettings
from headrace.connectors.lake.iceberg.compact_settings import CompactSettings
from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.parts import ALL_PARTITIONS
from headrace.connectors.lake.iceberg.schemas import AddColumn
from headrace.worker.engine.driver import Spark
from tests.integration.worker_process import eventually
from tests.spark.iceberg_tables import (
    IDS,
    SCHEMA,
    ZERO,
    OtherCatalog,
    change,
    deletes,
    intents,
    parquet,
    properties,
    snapshots,
    written,
)

pytestmark = [pytest.mark.spark, pytest.mark.long]
LIMITS = CompactSettings(4, 1 << 20, 0)


@pytest.fixture
def given(tmp_path: Path, engine: Spark) -> dict[str, str]:
    return properties("jdbc", tmp_path)


def opened(given: dict[str, str], limits: CompactSettings) -> JvmCatalog:
    """A catalog that compacts."""
    settings = CatalogSettings.of({f"iceberg.catalog.{key}": value for key, value in given.items()}, {})
    return JvmCatalog(settings, "sink", 0, compact=limits)


def plain(given: dict[str, str]) -> JvmCatalog:
    settings = CatalogSettings.of({f"iceberg.catalog.{key}": value for key, value in given.items()}, {})
    return JvmCatalog(settings, "sink", 0)


def live(java: Any) -> tuple[int, int]:
    """The numbers of data files and of files of deletes."""
    summary = java.currentSnapshot().summary()
    return int(summary["total-data-files"]), int(summary["total-delete-files"])


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_small_files_become_one(given: dict[str, str], tmp_path: Path, version: str) -> None:
    catalog, worker = plain(given), opened(given, LIMITS)
    table = catalog.create("db.t", SCHEMA, ["name"], [], {"format-version": version})
    for n in range(4):
        files = [written(tmp_path, table, [(n, name)], partition=(name,)) for name in ("a", "b")]
        catalog.commit([change(table, n or None, n + 1, *files[: 1 + (n < 2)])], IDS)
    table = catalog.evolve("db.t", [AddColumn((), "more", "string")])
    other = OtherCatalog(given)
    has_ids = version == "3"
    before = other.rows(other.table("db.t"), has_ids)
    assert worker.compact("db.t") == (4, 0)
    assert worker.compact("db.t") == (0, 0)
    java = other.table("db.t")
    assert other.rows(java, has_ids) == before
    assert live(java) == (3, 0)
    assert catalog.marks("db.t", IDS) == {ZERO: 4}
    assert catalog.commit([change(table, 4, 5)], IDS) == {"db.t": True}
    assert not intents(given)


def test_partitions_with_one_path_are_not_mixed(given: dict[str, str], tmp_path: Path) -> None:
    catalog, other = plain(given), OtherCatalog(given)
    table = catalog.create("db.t", SCHEMA, ["name"], [], {"format-version": "2"})
    for n in range(4):
        name = None if n % 2 else "null"
        catalog.commit([change(table, n or None, n + 1, written(tmp_path, table, [(n, name)], partition=(name,)))], IDS)
    assert opened(given, CompactSettings(2, 1 << 20, 0)).compact("db.t").replaced == 2
    assert other.rows(other.table("db.t")) == [(0, "null"), (1, None), (2, "null"), (3, None)]


def test_files_out_of_bounds_are_neither_read_nor_deleted(given: dict[str, str], tmp_path: Path) -> None:
    catalog, worker = plain(given), opened(given, CompactSettings(2, 1 << 20, 1))
    table = catalog.create("db.t", SCHEMA, [], [], {"format-version": "2", "write.data.path": str(tmp_path / "other")})
    for n in range(2):
        catalog.commit([change(table, n or None, n + 1, written(tmp_path, table, [(n, "a")]))], IDS)
    worker._lake._opening = {**worker._lake._opening, "allowed_paths": [given["warehouse"]]}
    with pytest.raises(LakeError, match=r"lies outside of file\.allowed\.paths"):
        worker.compact("db.t")
    assert opened(given, CompactSettings(2, 1 << 20, 0)).compact("db.t").replaced == 2
    eventually(lambda: worker.compact("db.t").expired, 60)
    assert len(list((tmp_path / "other").glob("*.parquet"))) == 3


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("is_global", [False, True])
def test_deletes_are_carried_out(given: dict[str, str], tmp_path: Path, version: str, is_global: bool) -> None:
    catalog, worker = plain(given), opened(given, LIMITS)
    table = catalog.create("db.t", SCHEMA, ["name"] if is_global else [], ["id"], {"format-version": version})
    partition, spec = (("a",), {"spec_id": ALL_PARTITIONS}) if is_global else ((), {})
    for n in range(3):
        rows = [(n, "a"), (9, "a")]
        gone = deletes(tmp_path, table, *(key for key, _ in rows), **spec)
        catalog.commit(
            [change(table, n or None, n + 1, written(tmp_path, table, rows, partition=partition), gone)], IDS
        )
    other = OtherCatalog(given)
    has_ids = version == "3"
    before = other.rows(other.table("db.t"), has_ids)
    assert [row[:2] for row in before] == [(0, "a"), (1, "a"), (2, "a"), (9, "a")]
    assert worker.compact("db.t").replaced == 6
    java = other.table("db.t")
    assert other.rows(java, has_ids) == before
    assert live(java) == (1, 0)
    last = deletes(tmp_path, table, 0, 1, 2, 9, **spec)
    assert catalog.commit([change(table, 3, 4, last)], IDS) == {"db.t": True}
    assert other.rows(other.table("db.t")) == []
    assert opened(given, CompactSettings(2, 1 << 20, 0)).compact("db.t").replaced == 2
    java = other.table("db.t")
    assert (other.rows(java), live(java)) == ([], (0, 0))
    assert len(parquet(given)) == 8  # those of older snapshots, and no empty one


def test_a_delete_that_comes_meanwhile_touches_the_new_file(
    given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = plain(given)
    table = catalog.create("db.t", SCHEMA, [], ["id"], {"format-version": "2"})
    for n in range(4):
        catalog.commit([change(table, n or None, n + 1, written(tmp_path, table, [(n, "a")]))], IDS)
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(opened(given, LIMITS).compact("db.t")))
    moved = change(table, 4, 5, written(tmp_path, table, [(1, "new")]), deletes(tmp_path, table, 1, 2))
    thread.start()
    assert catalog.commit([moved], IDS) == {"db.t": True}
    thread.join(120)
    other = OtherCatalog(given)
    assert answers[0].replaced in (0, 4, 6)
    assert other.rows(other.table("db.t")) == [(0, "a"), (1, "new"), (3, "a")]


def test_two_that_rewrite_the_same_files_lose_and_double_nothing(given: dict[str, str], tmp_path: Path) -> None:
    catalog = plain(given)
    table = catalog.create("db.t", SCHEMA, [], ["id"], {"format-version": "2"})
    for n in range(8):
        catalog.commit([change(table, n or None, n + 1, written(tmp_path, table, [(n, "a")]))], IDS)
    together = threading.Barrier(2)

    def run() -> None:
        mine = opened(given, LIMITS)
        together.wait(60)
        try:
            mine.compact("db.t")
        except LakeError as error:
            assert "Missing required files" in str(error)  # noqa: PT017

    threads = [threading.Thread(target=run) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(120)
    other = OtherCatalog(given)
    java = other.table("db.t")
    assert other.rows(java) == [(n, "a") for n in range(8)]
    assert live(java) == (1, 0)
    assert len(parquet(given)) == 9
    assert not intents(given)


def test_commits_start_it_and_old_snapshots_go(given: dict[str, str], tmp_path: Path) -> None:
    catalog = opened(given, CompactSettings(4, 1 << 20, 1))
    table = catalog.create("db.t", SCHEMA, [], [], {"format-version": "2"})
    ends = [0]

    def is_done() -> bool:
        begin = ends[-1]
        ends.append(begin + 1)
        file = written(tmp_path, table, [(begin, "a")])
        assert catalog.commit([change(table, begin or None, begin + 1, file)], IDS) == {"db.t": True}
        told = {one.name: one.value for one in catalog.samples()}
        return told["headrace_compact_replaced_total"] >= 9 and told["headrace_compact_expired_total"] >= 11

    eventually(is_done, 120)
    catalog.close()
    other = OtherCatalog(given)
    java = other.table("db.t")
    assert other.rows(java) == [(n, "a") for n in range(ends[-1])]
    assert len(snapshots(java)) < ends[-1]
    assert len(parquet(given)) < ends[-1]
    assert plain(given).marks("db.t", IDS) == {ZERO: ends[-1]}
