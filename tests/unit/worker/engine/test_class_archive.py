"""The options by which the driver's JVM starts with an archive of classes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from headrace.plugins.interop.jvm.jars import find_java
from headrace.worker.engine import class_archive


def test_javas_own_list_of_refused_signatures_stays_but_for_dsa() -> None:
    option = class_archive.without_signatures("-Xss1m")
    ours = Path(unquote(urlsplit(option.partition("=")[2]).path)).read_text()
    home = find_java().path.resolve().parents[1]
    theirs = (home / "conf" / "security" / "java.security").read_text().replace("\\\n", "")
    refused = [
        {one.strip() for one in re.findall(r"(?m)^jdk\.jar\.disabledAlgorithms=(.*)$", text)[-1].split(",")}
        for text in (ours, theirs)
    ]
    assert "DSA" in refused[0]
    assert {one for one in refused[1] if not one.startswith(("DSA", "include "))} <= refused[0]


def test_an_operators_own_security_settings_are_left_to_him() -> None:
    assert class_archive.without_signatures("-Xss1m -Djava.security.properties=/etc/own") == ""


def test_a_spark_that_was_installed_again_gets_an_archive_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jars").mkdir()
    jar = tmp_path / "more.jar"
    jar.touch()
    monkeypatch.setattr(class_archive, "installed_spark", lambda: tmp_path)
    paths = {class_archive.path_for([jar])}
    assert class_archive.path_for([jar]) in paths
    for again in (tmp_path / "jars", jar):
        os.utime(again, ns=(1, 1))
        paths.add(class_archive.path_for([jar]))
    assert len(paths) == 3
