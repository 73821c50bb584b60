"""The registry's program: unpacked once, checked, mended; and its command, which listens on loopback alone."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from pathlib import Path
from unittest.mock import Mock

import pytest

from headrace.config.jars import Jar
from headrace.plugins.interop.jvm.jars import Java, Unavailable
from headrace.worker.embedded import registry_files
from headrace.worker.embedded.registry_files import command, unpacked

JAR = Jar("org.example", "app", "1.0", "0" * 64, "all", "tar.gz")


@pytest.fixture(autouse=True)
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / JAR.file_name
    with tarfile.open(path, "w:gz") as tar:
        for name in ("quarkus-run.jar", "lib/main/one.jar"):
            info = tarfile.TarInfo(name)
            info.size = len(name)
            tar.addfile(info, io.BytesIO(name.encode()))
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(registry_files, "pinned", lambda jar_set: (JAR,))
    monkeypatch.setattr(registry_files, "unverified", lambda jar_set: [])
    monkeypatch.setattr(registry_files, "fetch", lambda jar_set: [path])
    return path


def test_the_archive_is_unpacked_once(archive: Path) -> None:
    home = unpacked()
    assert (home / "lib" / "main" / "one.jar").read_text() == "lib/main/one.jar"
    archive.unlink()
    assert unpacked() == home


@pytest.mark.parametrize("damage", ["missing", "cut", "manifest", "other archive"])
def test_what_is_damaged_is_unpacked_again(damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home = unpacked()
    one = home / "lib" / "main" / "one.jar"
    if damage == "missing":
        one.unlink()
    elif damage == "cut":
        one.write_text("lib")
    elif damage == "manifest":
        (home / "headrace-unpacked.json").write_text("{torn")
    else:
        other = Jar("org.example", "app", "1.0", "1" * 64, "all", "tar.gz")
        one.write_text("old/main/one.jar")  # of the same size
        monkeypatch.setattr(registry_files, "pinned", lambda jar_set: (other,))
    unpacked()
    assert one.read_text() == "lib/main/one.jar"
    assert [path.name for path in home.parent.iterdir() if path.is_dir()] == [JAR.version]


def test_what_a_killed_unpacking_left_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", lambda *_, **__: None)
        killed.setattr(os, "replace", Mock(side_effect=OSError("killed")))
        with pytest.raises(Unavailable):
            unpacked()
    home = unpacked()
    assert [path.name for path in home.parent.iterdir() if path.is_dir()] == [JAR.version]


def test_an_archive_that_cannot_be_unpacked_is_said_with_what_to_do(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:90])
    with pytest.raises(Unavailable, match=r"could not be unpacked.*200 MB.*HEADRACE_CACHE"):
        unpacked()
    assert not [path for path in (archive.parent / "cache" / "registry").iterdir() if path.is_dir()]


def test_the_registry_listens_on_loopback_and_keeps_its_schemas_in_its_folder(tmp_path: Path) -> None:
    line = command(Java(tmp_path / "java", 21), tmp_path / "home", 8081, tmp_path / "server.log")
    assert [word for word in line if ".host=" in word] == [
        "-Dquarkus.http.host=127.0.0.1",
        "-Dquarkus.management.host=127.0.0.1",
    ]
    assert "-Dquarkus.http.port=8081" in line
    (url,) = (word for word in line if word.startswith("-Dapicurio.datasource.url="))
    assert "jdbc:h2:file:./data/" in url
    assert "WRITE_DELAY=0" in url
    assert line[-2:] == ["-jar", str(tmp_path / "home" / "quarkus-run.jar")]
