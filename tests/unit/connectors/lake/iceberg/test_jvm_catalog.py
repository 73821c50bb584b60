"""The catalog of one task over a JVM that is not there: what it asks, and how it ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.connectors.lake.errors import LakeError
from headrace.connectors.lake.iceberg import jvm_catalog as module
from headrace.connectors.lake.iceberg import jvm_lake
from headrace.connectors.lake.iceberg.catalog_settings import CatalogSettings
from headrace.connectors.lake.iceberg.compact_settings import CompactSettings
from headrace.connectors.lake.iceberg.jvm_catalog import JvmCatalog
from headrace.connectors.lake.iceberg.jvm_lake import Fault, JvmLake
from headrace.connectors.lake.iceberg.parts import TableCommit
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition

ZERO = TopicPartition("t", 0)
SETTINGS = {"iceberg.catalog.type": "hadoop", "iceberg.catalog.warehouse": "file:///tmp/lake"}


class FakeLake:
    """Answers as the Java side does; a rewrite goes on until the catalog is closed."""

    def __init__(self, *_: Any) -> None:
        self.marks: dict[str, Any] = {}
        self.faults: list[str] = []
        self.is_rewriting, self.is_closed = threading.Event(), threading.Event()

    def call(self, method: str, request: Mapping[str, Any]) -> dict[str, Any]:
        if method == "commit" and self.faults:
            return {one["table"]: {"fault": self.faults.pop(), "message": "no lock"} for one in request["tables"]}
        if method == "commit":
            return {one["table"]: {"committed": True} for one in request["tables"]}
        if method == "compact":
            self.is_rewriting.set()
            assert self.is_closed.wait(60)
            raise Fault("refused", "the task ends")
        return self.marks

    def close(self) -> None:
        self.is_closed.set()


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> FakeLake:
    made = FakeLake()
    monkeypatch.setattr(module, "JvmLake", lambda *_: made)
    return made


def test_a_rewrite_that_the_end_cuts_off_is_no_failure(lake: FakeLake, caplog: pytest.LogCaptureFixture) -> None:
    catalog = JvmCatalog(CatalogSettings.of(SETTINGS, {}), "c", 0, compact=CompactSettings(2, 1, 0))
    catalog.commit([TableCommit("db.t", (), {ZERO: None}, {ZERO: 1})], {"t": "id-of-t"})
    assert lake.is_rewriting.wait(60)
    with caplog.at_level(logging.WARNING):
        catalog.close()
    assert "not merged" not in caplog.text
    assert {one.name: one.value for one in catalog.samples()}["headrace_compact_failures_total"] == 0


def test_marks_of_a_topic_whose_id_is_not_told_are_not_passed_over(lake: FakeLake) -> None:
    catalog = JvmCatalog(CatalogSettings.of(SETTINGS, {}), "c", 0)
    lake.marks = {"id-of-t": {"topic": "t", "offsets": {"0": 7}}}
    assert catalog.marks("db.t", {"t": "id-of-t"}) == {ZERO: 7}
    assert catalog.marks("db.t", {"t": "another-id", "u": "u"}) == {}
    with pytest.raises(RetriableError, match=r"does not tell the id of topic t, .* table db\.t"):
        catalog.marks("db.t", {"t": "t"})
    lake.marks = {"t": {"topic": "t", "offsets": {"0": 7}}}
    assert catalog.marks("db.t", {"t": "t"}) == {ZERO: 7}


def test_a_metastore_without_locks_is_told_apart_from_one_that_restarts(lake: FakeLake) -> None:
    catalog = JvmCatalog(CatalogSettings.of(SETTINGS, {}), "c", 0)

    def commit() -> None:
        catalog.commit([TableCommit("db.t", (), {ZERO: None}, {ZERO: 1})], {"t": "id-of-t"})

    def fail(kind: str, error: type[Exception]) -> None:
        lake.faults.append(kind)
        with pytest.raises(error, match=r"table db\.t, commit: no lock"):
            commit()

    for _ in range(2):
        fail("lock", RetriableError)
        fail("lock", RetriableError)
        commit()
    fail("lock", RetriableError)
    fail("lock", RetriableError)
    fail("retry", RetriableError)
    fail("lock", LakeError)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods that the Java side was asked for."""
    methods: list[str] = []

    def made(method: str, request: str, hadoop: Any) -> str:
        methods.append(method)
        return "{}"

    context = object()
    monkeypatch.setattr(jvm_lake, "complete_context", lambda: context)
    monkeypatch.setattr(jvm_lake, "class_loader", lambda *_: None)
    monkeypatch.setattr(jvm_lake, "new_in_java", lambda *_: made)
    monkeypatch.setattr(jvm_lake, "hadoop_configuration", lambda _: None)
    return methods


def test_a_closed_catalog_is_not_opened_again(asked: list[str]) -> None:
    lake = JvmLake({}, with_aws=False)
    lake.call("load", {})
    lake.close()
    with pytest.raises(RetriableError, match="closed"):
        lake.call("compact", {})
    assert asked == ["open", "load", "close"]


def test_a_catalog_that_logs_in_again_is_opened_again(asked: list[str]) -> None:
    lake = JvmLake({}, with_aws=False)
    lake.call("load", {})
    assert lake.log_in_again()
    assert not lake.log_in_again()
    lake.call("load", {})
    assert asked == ["open", "load", "close", "open", "load"]


def test_a_call_is_interrupted_also_while_the_catalog_is_opened(asked: list[str]) -> None:
    cancels: list[Callable[[], None]] = []

    @contextmanager
    def interrupted_by(cancel: Callable[[], None]) -> Iterator[None]:
        cancels.append(cancel)
        yield
        cancel()

    lake = JvmLake({}, False, interrupted_by)
    lake.call("load", {})
    lake.close()
    cancels[0]()
    assert asked == ["open", "load", "cancel", "close"]
