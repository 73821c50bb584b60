"""A real HDFS as a store: by WebHDFS, and through Hadoop's file system in the driver's JVM."""

from __future__ import annotations

import http.server
import json
import pickle
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.stores.by_url import store_of
from headrace.connectors.hdfs.stores.settings import HadoopSettings, StoreSettings
from headrace.connectors.hdfs.stores.store import Store
from headrace.plugins.contracts import Place
from headrace.plugins.errors import RetriableError
from tests.held_ports import held_port
from tests.integration.hdfs_server import USER, HdfsServer
from tests.integration.worker_process import eventually
from tests.store_behaviour import RenamingBehaviour, local_file, text_of


def web_store(server: HdfsServer, folder: str = "", user: str = USER) -> Store:
    """A folder of this HDFS by WebHDFS; a new one without a name."""
    return store_of(StoreSettings(f"{server.web_url}/{folder or uuid.uuid4()}", HadoopSettings(user=user)))


def jvm_store(server: HdfsServer, folder: str = "", user: str = USER) -> Store:
    """A folder of this HDFS through Hadoop's client; a new one without a name."""
    return store_of(StoreSettings(f"{server.url}/{folder or uuid.uuid4()}", HadoopSettings(user=user)))


STORES: Sequence[Callable[..., Store]] = (web_store, jvm_store)
SELDOM_BY_WEB = pytest.mark.parametrize("store_at", [pytest.param(web_store, marks=pytest.mark.soak), jvm_store])
SEVERAL_PAGES = 500
"""HDFS lists 100 entries at once (`hdfs_server`)."""


class TestWebHdfs(RenamingBehaviour):
    """All that a store does, by WebHDFS."""

    many = SEVERAL_PAGES

    @pytest.fixture
    def store(self, hdfs_server: HdfsServer) -> Iterator[Store]:
        store = web_store(hdfs_server)
        yield store
        store.close()


class TestHadoop(RenamingBehaviour):
    """All that a store does, through the driver's JVM, but for other processes, which have none."""

    many = SEVERAL_PAGES

    @pytest.fixture
    def store(self, hdfs_server: HdfsServer, spark: SparkSession) -> Iterator[Store]:
        store = jvm_store(hdfs_server)
        yield store
        store.close()

    def test_another_process_uses_it(self, store: Store, tmp_path: Path) -> None:
        assert store.place is Place.WORKER_PROCESS
        code = "import pickle, sys; pickle.load(sys.stdin.buffer).create('a')"
        done = subprocess.run(
            [sys.executable, "-c", code], input=pickle.dumps(store), capture_output=True, timeout=60, check=False
        )
        assert "RetriableError: Hadoop's client is in Spark's JVM, which does not run yet" in done.stderr.decode()


def test_the_name_nodes_of_hdfs_are_found_in_its_configuration(hdfs_server: HdfsServer) -> None:
    settings = HadoopSettings(str(hdfs_server.conf_dir), USER)
    folder = str(uuid.uuid4())
    store_of(StoreSettings(f"{hdfs_server.url}/{folder}", settings)).create("a")
    assert web_store(hdfs_server, folder).exists("a")


@pytest.mark.parametrize("store_at", STORES)
def test_a_stranger_is_refused(
    hdfs_server: HdfsServer, spark: SparkSession, tmp_path: Path, store_at: Callable[..., Store]
) -> None:
    store_at(hdfs_server, "owned").upload(local_file(tmp_path), "a")
    stranger = store_at(hdfs_server, "owned", "stranger")
    for change in (
        lambda: stranger.create("b"),
        lambda: stranger.upload(local_file(tmp_path), "b"),
        lambda: stranger.rename("a", "b"),
        lambda: stranger.delete("a"),
    ):
        with pytest.raises(StoreError, match=r"hdfs://127.*user=stranger.*hadoop\.user"):
            change()
    assert stranger.exists("a")


@pytest.mark.long
@SELDOM_BY_WEB
def test_safe_mode_passes(
    hdfs_server: HdfsServer, spark: SparkSession, tmp_path: Path, store_at: Callable[..., Store]
) -> None:
    store = store_at(hdfs_server)
    store.create("a")
    hdfs_server.admin("-safemode", "enter")
    try:
        for change in (lambda: store.rename("a", "b"), lambda: store.upload(local_file(tmp_path), "c")):
            with pytest.raises(RetriableError, match=r"safe mode.*-safemode get"):
                change()
        assert store.exists("a")
    finally:
        hdfs_server.admin("-safemode", "leave")
    assert store.rename("a", "b") is True


@pytest.mark.long
@SELDOM_BY_WEB
def test_a_full_quota_passes(
    hdfs_server: HdfsServer, spark: SparkSession, tmp_path: Path, store_at: Callable[..., Store]
) -> None:
    folder = str(uuid.uuid4())
    store = store_at(hdfs_server, folder)
    store.create("a")
    hdfs_server.admin("-setQuota", "2", f"/{folder}")
    with pytest.raises(RetriableError, match=r"quota.*-setQuota"):
        store.create("b")
    hdfs_server.admin("-clrQuota", f"/{folder}")
    hdfs_server.admin("-setSpaceQuota", "1m", f"/{folder}")
    with pytest.raises(RetriableError, match=r"quota.*-setSpaceQuota"):
        store.upload(local_file(tmp_path), "b")


@pytest.mark.long
@SELDOM_BY_WEB
def test_killed_nodes_come_back_with_their_files(
    hdfs_server: HdfsServer, spark: SparkSession, tmp_path: Path, store_at: Callable[..., Store]
) -> None:
    store = store_at(hdfs_server)
    store.upload(local_file(tmp_path), "a")
    hdfs_server.data_node.kill()
    with pytest.raises(RetriableError):
        store.upload(local_file(tmp_path), "b")
    with pytest.raises(RetriableError):
        text_of(store, "a")
    hdfs_server.name_node.kill()
    with pytest.raises(RetriableError, match=r"hdfs://127.*No name node answers"):
        store.exists("a")
    hdfs_server.start()
    eventually(lambda: _text_if_there(store, "a") == "some text", 60)  # the data node has yet to tell its blocks


def _text_if_there(store: Store, path: str) -> str | None:
    try:
        return text_of(store, path)
    except RetriableError:
        return None


def test_a_name_node_that_is_away_or_standing_by_is_passed_over(hdfs_server: HdfsServer) -> None:
    active = hdfs_server.web_url.removeprefix("webhdfs://")
    with standby() as second:
        url = f"webhdfs://127.0.0.1:{held_port()},{second},{active}/{uuid.uuid4()}"
        store = store_of(StoreSettings(url, HadoopSettings(user=USER)))
        store.create("a")
        assert store.rename("a", "b") is True
        only = store_of(StoreSettings(f"webhdfs://{second}/", HadoopSettings(user=USER)))
        with pytest.raises(RetriableError, match="haadmin"):
            only.create("a")


@contextmanager
def standby() -> Iterator[str]:
    """The address of what answers as a name node that is not active."""
    told = {"exception": "StandbyException", "message": "Operation category READ is not supported in state standby"}

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"RemoteException": told}).encode()
            self.send_response(403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_DELETE = do_GET

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
