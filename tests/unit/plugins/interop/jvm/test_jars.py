"""The jar cache: verified, mended, never fetched twice; and errors that say what to do. No network: Ivy is played."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

import pytest

from headrace.config.jars import Jar
from headrace.plugins.interop.jvm import jars
from headrace.plugins.interop.jvm.jars import Unavailable

CONTENT = b"a jar"
JAR = Jar("org.example", "one", "1.0", hashlib.sha256(CONTENT).hexdigest())


class PlayedIvy:
    """Leaves in Ivy's cache what it is told to, as Ivy does."""

    def __init__(self, *contents: bytes | None) -> None:
        self.contents = list(contents)
        self.runs = 0

    def __call__(self, jar_set: str, wanted: Sequence[Jar], ivy: Path, lock: IO[str]) -> list[str]:
        self.runs += 1
        content = self.contents.pop(0)
        if content is None:
            return ["Host repo not found", "java.net.UnknownHostException: repo"]
        got = ivy / JAR.group / JAR.artifact / "jars" / JAR.file_name
        got.parent.mkdir(parents=True, exist_ok=True)
        got.write_bytes(content)
        return []


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))
    monkeypatch.setattr(jars, "pinned", lambda jar_set: (JAR,))
    return tmp_path / "jars" / JAR.file_name


def play(monkeypatch: pytest.MonkeyPatch, *contents: bytes | None) -> PlayedIvy:
    ivy = PlayedIvy(*contents)
    monkeypatch.setattr(jars, "_run_ivy", ivy)
    return ivy


def test_a_jar_is_fetched_once(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    ivy = play(monkeypatch, CONTENT)
    assert jars.fetch("kafka") == jars.fetch("kafka") == [cache]
    assert cache.read_bytes() == CONTENT
    assert ivy.runs == 1
    assert jars.unverified("kafka") == []


def test_a_jar_that_was_copied_in_is_verified_and_taken(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    ivy = play(monkeypatch)
    cache.parent.mkdir()
    cache.write_bytes(CONTENT)
    jars.fetch("kafka")
    assert ivy.runs == 0
    assert jars.unverified("kafka") == []


def test_a_damaged_jar_is_fetched_again(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    play(monkeypatch, CONTENT, CONTENT)
    jars.fetch("kafka")
    cache.write_bytes(b"damaged")
    assert jars.unverified("kafka") == [JAR]
    jars.fetch("kafka")
    assert cache.read_bytes() == CONTENT


def test_a_changed_jar_of_the_same_size_and_times_is_fetched_again(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    play(monkeypatch, CONTENT, CONTENT)
    jars.fetch("kafka")
    found = cache.stat()
    cache.write_bytes(bytes(reversed(CONTENT)))
    os.utime(cache, ns=(found.st_atime_ns, found.st_mtime_ns))
    jars.fetch("kafka")
    assert cache.read_bytes() == CONTENT


def test_a_cache_that_everybody_can_write_to_is_refused(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    play(monkeypatch, CONTENT)
    jars.fetch("kafka")
    for folder in (cache.parent, cache.parent.parent):
        mode = folder.stat().st_mode
        folder.chmod(0o777)
        with pytest.raises(Unavailable, match=rf"everybody can write to the jar cache {folder}: .*set HEADRACE_CACHE"):
            jars.fetch("kafka")
        folder.chmod(mode)
    assert jars.fetch("kafka") == [cache]


def test_a_jar_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    play(monkeypatch, CONTENT)
    jars.fetch("kafka")

    def refused(_path: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(jars, "_sha256", refused)
    with pytest.raises(Unavailable, match=rf"the jar {cache} cannot be read \(Permission denied\)"):
        jars.fetch("kafka")


def test_a_download_that_is_not_what_was_pinned_never_reaches_the_cache(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    ivy = play(monkeypatch, b"forged", b"forged")
    with pytest.raises(Unavailable, match=r"org\.example:one:1\.0.*SHA-256 differs"):
        jars.fetch("kafka")
    assert ivy.runs == 2
    assert not cache.exists()


def test_a_bad_download_is_tried_again(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    play(monkeypatch, b"cut sho", CONTENT)
    jars.fetch("kafka")
    assert cache.read_bytes() == CONTENT


def test_without_network_the_error_says_what_where_and_what_to_do(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    play(monkeypatch, None)
    with pytest.raises(Unavailable) as caught:
        jars.fetch("kafka")
    for part in ("org.example:one:1.0", "UnknownHost", "HTTPS_PROXY", "HEADRACE_IVY_SETTINGS", str(cache.parent)):
        assert part in str(caught.value)


def test_the_command_answers_3_for_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    play(monkeypatch, None)
    assert jars.main(["kafka"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert "could not be fetched" in err


def java(tmp_path: Path, says: str) -> Path:
    path = tmp_path / "jdk" / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize(
    ("says", "version"),
    [('openjdk version "17.0.15" 2025-04-15', 17), ('openjdk version "21" 2023-09-19', 21), ('version "25-ea"', 25)],
)
def test_java_home_is_taken_first(says: str, version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = java(tmp_path, says)
    monkeypatch.setenv("JAVA_HOME", str(path.parent.parent))
    assert jars.find_java() == jars.Java(path, version)


def test_java_is_found_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = java(tmp_path, 'openjdk version "17.0.1"')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(path.parent), prepend=":")
    assert jars.find_java().path == path


@pytest.mark.parametrize(
    ("says", "told"),
    [('java version "1.8.0_372"', "is version 8"), ("no runtime present", "does not tell its version")],
)
def test_a_java_that_will_not_do_is_refused_with_advice(
    says: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, says).parent.parent))
    with pytest.raises(Unavailable, match=rf"JAVA_HOME=.*{told}.*install a JDK or JRE 17"):
        jars.find_java()


def test_no_java_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="no Java"):
        jars.find_java()


def test_a_proxy_is_handed_to_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    assert jars._proxy() == ["-Dhttps.proxyHost=proxy.example", "-Dhttps.proxyPort=3128"]


def test_ivy_is_told_of_classifier_and_extension_where_there_are_any() -> None:
    archive = Jar("org.example", "app", "1.0", "0", "all", "tar.gz")
    told = ElementTree.fromstring(jars._module("registry", [JAR, archive]))
    plain, special = told.iter("dependency")
    assert list(plain) == []
    (artifact,) = special
    maven = "{http://ant.apache.org/ivy/maven}"
    assert artifact.attrib == {"name": "app", "type": "tar.gz", "ext": "tar.gz", f"{maven}classifier": "all"}
