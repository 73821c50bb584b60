"""A build of an image ends if the archive of Spark's classes is missing; a user's own start goes on without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.worker.engine import class_archive_writer


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "classes.jsa"
    monkeypatch.setattr(class_archive_writer, "driver_jars", list)
    monkeypatch.setattr(class_archive_writer, "path_for", lambda _: found)
    return found


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--strict"], 1)])
@pytest.mark.parametrize("fails", [True, False])
def test_no_archive(
    arguments: list[str],
    code: int,
    fails: bool,
    archive: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def write(_: Sequence[Path]) -> None:
        if fails:
            raise OSError("no room")

    monkeypatch.setattr(class_archive_writer, "write", write)
    assert class_archive_writer.main(arguments) == code
    said = capsys.readouterr().err
    assert str(archive) in said
    assert ("no room" in said) == fails


def test_an_archive_that_is_there(archive: Path) -> None:
    archive.touch()
    assert class_archive_writer.main(["--strict"]) == 0
