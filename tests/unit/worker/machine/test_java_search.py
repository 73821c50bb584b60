"""The choice of a Java for programs that need a newer one than Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.plugins.interop.jvm.jars import Unavailable
from headrace.worker.machine import java_search
from headrace.worker.machine.java_search import find_newer_java


def installed(folder: Path, name: str, version: int) -> Path:
    java = folder / name / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}.0.1\"' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Java 17 on PATH, and a folder of JDKs that is empty yet."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{installed(tmp_path / 'system', 'jre', 17).parent}:/usr/bin:/bin")
    monkeypatch.setattr(java_search, "_FOLDERS_OF_JDKS", (str(tmp_path / "jdks"), str(tmp_path / "none")))
    return tmp_path / "jdks"


def test_the_one_that_spark_takes_is_taken_where_it_is_new_enough(machine: Path) -> None:
    installed(machine, "jdk-25", 25)
    assert find_newer_java(17, "it").version == 17


def test_else_the_oldest_that_is_new_enough(machine: Path) -> None:
    for version in (11, 25, 21):
        installed(machine, f"jdk-{version}", version)
    (machine / "default").symlink_to(machine / "jdk-11")
    installed(machine, "broken", 99).write_text("#!/bin/sh\nexit 1\n")
    found = find_newer_java(21, "it")
    assert (found.version, found.path) == (21, machine / "jdk-21" / "bin" / "java")


def test_one_beside_java_home_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(installed(tmp_path / "opt", "jdk-17", 17).parent.parent))
    beside = installed(tmp_path / "opt", "jdk-21", 21)
    assert find_newer_java(21, "it").path == beside


def test_the_current_folder_is_nowhere_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path / "here", ".", 99)
    installed(tmp_path, "here/in", 99)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PATH", f"{tmp_path / 'system' / 'jre' / 'bin'}:in/bin:./bin::bin:/usr/bin:/bin")
    with pytest.raises(Unavailable):
        find_newer_java(99, "it")


def test_where_all_are_older_each_is_named_with_what_to_do(machine: Path) -> None:
    eleven = installed(machine, "jdk-11", 11)
    with pytest.raises(Unavailable) as caught:
        find_newer_java(21, "the thing")
    for part in ("the thing needs Java 21", f"11 at {eleven}", "17 at ", "install a JDK", "JAVA_HOME"):
        assert part in str(caught.value)
