"""The Java that a plugin needs is the highest that a class of its jars was compiled for."""

from __future__ import annotations

import zipfile
from pathlib import Path

from headrace.config.plugin_path.java_release import JavaNeed, java_need
from tests.made_jars import class_file, entry, jar

ONE, TWO = "org.example.One", "org.example.Two"


def test_the_highest_class_of_all_jars_counts(tmp_path: Path) -> None:
    old = jar(tmp_path / "old.jar", {ONE: class_file(ONE, java=8)})
    new = jar(tmp_path / "new.jar", {ONE: class_file(ONE, java=11), TWO: class_file(TWO, java=21)})
    assert java_need([old, new]) == JavaNeed(21, "new.jar")
    assert java_need([old]) == JavaNeed(8, "old.jar")


def test_what_an_older_java_does_not_look_at_does_not_count(tmp_path: Path) -> None:
    made = jar(tmp_path / "p.jar", {ONE: class_file(ONE, java=11)})
    with zipfile.ZipFile(made, "a") as more:
        for name in (f"META-INF/versions/25/{entry(ONE)}", "module-info.class", "note.txt"):
            more.writestr(name, class_file(ONE, java=25))
    assert java_need([made]) == JavaNeed(11, "p.jar")


def test_no_class_and_a_damaged_jar_need_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.jar").write_bytes(b"no zip")
    odd = jar(tmp_path / "odd.jar", {ONE: b"no class"})
    assert java_need([tmp_path / "bad.jar", odd, tmp_path / "gone.jar"]) is None
