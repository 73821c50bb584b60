"""Headrace's own Java becomes a jar of the cache once. No JVM: the compiler is played."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import pytest

from headrace.plugins.interop.jvm import jars, java_compiler
from headrace.plugins.interop.jvm.java_compiler import compiled

PLAYED: Final = """#!/bin/sh
[ "$1" = -version ] && { echo 'openjdk version "17.0.15"' >&2; exit; }
echo run >> %(runs)s
%(fails)s
while [ "$1" != -d ]; do shift; done
mkdir -p "$2/headrace" && echo bytecode > "$2/headrace/One.class"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    def fetch(jar_set: str) -> list[Path]:
        assert jar_set == "compiler"
        folder = tmp_path / "cache" / "jars"
        folder.mkdir(parents=True, exist_ok=True)
        return [folder / "ecj.jar"]

    monkeypatch.setattr(java_compiler.jars, "fetch", fetch)
    return tmp_path / "cache" / "jars"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "One.java").write_text("package headrace; class One { }")
    (folder / "other.py").touch()
    return folder


def play(tmp_path: Path, fails: str = "") -> Path:
    java, runs = tmp_path / "bin" / "java", tmp_path / "runs"
    java.parent.mkdir(exist_ok=True)
    java.write_text(PLAYED % {"runs": runs, "fails": fails})
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    runs.touch()
    return runs


def test_a_jar_is_compiled_once(tmp_path: Path, cache: Path, sources: Path) -> None:
    runs = play(tmp_path)
    jar = compiled("one", sources, [Path("/a.jar")])
    assert compiled("one", sources, [Path("/a.jar")]) == jar
    assert runs.read_text() == "run\n"
    assert [one.name for one in cache.iterdir()] == [jar.name]
    with ZipFile(jar) as packed:
        assert packed.namelist() == ["headrace/One.class"]


def test_a_jar_that_is_made_anew_is_the_same(tmp_path: Path, sources: Path) -> None:
    play(tmp_path)
    jar = compiled("one", sources, [])
    bytes_, modified = jar.read_bytes(), jar.stat().st_mtime_ns
    jar.unlink()
    assert compiled("one", sources, []) == jar
    assert (jar.read_bytes(), jar.stat().st_mtime_ns) == (bytes_, modified)


def test_a_jar_that_was_cut_is_compiled_again(tmp_path: Path, sources: Path) -> None:
    play(tmp_path)
    jar = compiled("one", sources, [])
    whole = jar.read_bytes()
    for cut in (b"", whole[:50]):
        jar.write_bytes(cut)
        assert compiled("one", sources, []).read_bytes() == whole


def test_other_sources_and_another_class_path_make_other_jars(tmp_path: Path, sources: Path) -> None:
    play(tmp_path)
    made = {compiled("one", sources, []), compiled("one", sources, [Path("/a-2.jar")])}
    (sources / "One.java").write_text("package headrace; class One { int more; }")
    made.add(compiled("one", sources, []))
    assert len(made) == 3


def test_a_compiler_that_fails_is_told_and_leaves_nothing(tmp_path: Path, cache: Path, sources: Path) -> None:
    play(tmp_path, fails="echo 'ERROR in One.java'; exit 255")
    with pytest.raises(jars.Unavailable, match=rf"(?s){sources} could not be compiled by ecj.jar.*ERROR in One\.java"):
        compiled("one", sources, [])
    assert list(cache.iterdir()) == []


def test_a_compiler_that_cannot_be_fetched_is_told(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(_: str) -> list[Path]:
        raise jars.Unavailable("1 jar(s) could not be fetched")

    monkeypatch.setattr(java_compiler.jars, "fetch", fetch)
    with pytest.raises(jars.Unavailable, match="could not be fetched"):
        compiled("one", sources, [])
