"""The local disk as a store."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.stores import local
from headrace.connectors.hdfs.stores.by_url import store_of
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.connectors.hdfs.stores.store import Store
from headrace.plugins.errors import RetriableError
from tests.store_behaviour import RenamingBehaviour, local_file, text_of


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return store_of(StoreSettings(f"file://{tmp_path}/the%20store"))


class TestLocal(RenamingBehaviour):
    """All that a store does, on the local disk."""


def test_the_root_is_the_urls_path(store: Store, tmp_path: Path) -> None:
    store.create("a/b")
    assert (tmp_path / "the store" / "a" / "b").exists()
    assert store.url == f"file://{tmp_path}/the store"


@pytest.mark.parametrize("url", ["file:///{}", "file:/{}", "file://localhost/{}"])
def test_the_forms_of_a_url(url: str, tmp_path: Path) -> None:
    store_of(StoreSettings(url.format(str(tmp_path).lstrip("/")))).create("a")
    assert (tmp_path / "a").exists()


def test_a_root_outside_of_the_allowed_paths_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"file\.allowed\.paths"):
        store_of(StoreSettings(f"file://{tmp_path}/b", allowed_paths=(f"{tmp_path}/a",)))
    store_of(StoreSettings(f"file://{tmp_path}/a/x", allowed_paths=(f"{tmp_path}/a",)))


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(ConfigError, match="gopher"):
        store_of(StoreSettings("gopher://host/x"))


def test_without_the_systems_call_nothing_is_overwritten_either(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_renameat2", lambda: None)
    store.create("a")
    store.create("b")
    with pytest.raises(FileExistsError):
        store.rename("a", "b")
    assert store.rename("x", "b") is False
    assert store.rename("a", "new/c") is True


def test_another_file_system_gets_a_copy(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    store.upload(local_file(tmp_path), "a/b")
    store.upload(local_file(tmp_path, "shorter"), "a/b")
    assert text_of(store, "a/b") == "shorter"


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.ENOSPC, RetriableError, "Make room"),
        (errno.EDQUOT, RetriableError, "quota"),
        (errno.EIO, RetriableError, "disk or the mount"),
        (errno.EACCES, StoreError, "this worker's user"),
        (errno.EROFS, StoreError, "this worker's user"),
        (errno.ENAMETOOLONG, StoreError, r"topics\.dir"),
    ],
)
def test_errors_say_what_to_do(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception], advice: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(local, "_link", fail)
    with pytest.raises(kind, match=f"'a/b' in file://.*{advice}"):
        store.upload(local_file(tmp_path), "a/b")


def test_a_file_in_the_place_of_a_folder_is_named(store: Store) -> None:
    store.create("a")
    with pytest.raises(StoreError, match="'a/b'"):
        store.create("a/b")
