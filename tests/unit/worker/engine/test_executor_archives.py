"""Archives for executors: Python can use them once unpacked, and they are named by what is in them."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from headrace.worker.engine.executor_archives import packages_archive, product_archive, versions_needed


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "executors"


@pytest.fixture
def plugin_path(tmp_path: Path) -> list[str]:
    """A folder and a wheel."""
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "in_a_folder.py").write_text("NAME = 'folder'\n")
    wheel = tmp_path / "in_a_wheel-1.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("in_a_wheel.py", "NAME = 'wheel'\n")
    return [str(folder), str(wheel)]


def test_an_unpacked_archive_has_headrace_its_entry_points_and_plugins(tmp_path: Path, plugin_path: list[str]) -> None:
    archive, paths = product_archive(plugin_path)
    with zipfile.ZipFile(archive.path) as packed:
        assert not [name for name in packed.namelist() if "__pycache__" in name or name.endswith("direct_url.json")]
        packed.extractall(tmp_path / archive.folder)
    code = (
        "import headrace.worker.engine.executor_probe as probe, headrace, in_a_folder, in_a_wheel;"
        "from importlib.metadata import entry_points;"
        "print(headrace.__file__, in_a_folder.NAME, in_a_wheel.NAME, len(entry_points(group='headrace.jdbc.dialect')))"
    )
    env = {"PYTHONPATH": ":".join(paths), "PATH": ""}
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert done.stdout.split() == [str(tmp_path / archive.folder / "headrace/__init__.py"), "folder", "wheel", "3"], (
        done.stderr
    )


def test_an_archive_is_built_once_for_what_is_in_it(cache: Path, tmp_path: Path, plugin_path: list[str]) -> None:
    first, _ = product_archive(plugin_path)
    written = first.path.stat().st_ino
    assert product_archive(plugin_path)[0] == first
    assert first.path.stat().st_ino == written
    (tmp_path / "folder" / "in_a_folder.py").write_text("NAME = 'other'\n")
    assert product_archive(plugin_path)[0].folder != first.folder
    assert len(list(cache.iterdir())) == 2


def test_only_what_executors_import_is_needed() -> None:
    needed = versions_needed()
    assert {"pyarrow", "confluent-kafka", "psycopg-binary", "urllib3"} <= needed.keys(), "also what those need"
    assert not {"headrace", "pyspark", "py4j", "fastapi", "pytest"} & needed.keys()


def test_packages_are_sent_as_they_are_installed(tmp_path: Path) -> None:
    archive = packages_archive(["six"])
    with zipfile.ZipFile(archive.path) as packed:
        names = packed.namelist()
    assert "six.py" in names
    assert any(name.endswith(".dist-info/METADATA") for name in names)
    assert archive.uri == f"{archive.path.as_uri()}#{archive.folder}"
