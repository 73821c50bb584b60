"""Headrace's own Java, with what its compiler would warn of."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.connectors.java import class_path as java_host
from headrace.plugins.interop.jvm import jars, java_compiler
from headrace.worker.engine import driver_jars as driver
from headrace.worker.engine.gateway import installed_spark

_WARNINGS = "-warn:raw,unchecked,unusedImport,unusedLocal,unusedPrivate,semicolon,uselessTypeCheck,unnecessaryElse"
HOST = Path(java_host.__file__).with_name("host")
DRIVER = Path(driver.__file__).parent


@pytest.mark.parametrize("folder", [HOST, DRIVER], ids=["host", "driver"])
def test_it_has_types_and_nothing_useless(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    against = jars.fetch("java") if folder == HOST else sorted((installed_spark() / "jars").glob("*.jar"))
    options = [one for one in java_compiler._OPTIONS if one != "-nowarn"]
    monkeypatch.setattr(java_compiler, "_OPTIONS", (*options, _WARNINGS, "-failOnWarning"))
    (compiler,) = jars.fetch("compiler")
    java_compiler._compile(compiler, sorted(folder.glob("*.java")), against, tmp_path)
