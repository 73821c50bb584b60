"""A standalone worker's name lasts, and no two workers have it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headrace.worker.storage.worker_identity import SUFFIX, WorkerIdentity


def test_the_next_worker_with_the_same_offsets_has_the_name(tmp_path: Path) -> None:
    former = WorkerIdentity(tmp_path / "new" / "offsets")
    former.release()
    later = WorkerIdentity(tmp_path / "new" / "offsets")
    assert later.name == former.name
    later.release()


def test_workers_of_one_host_name_and_path_have_names_of_their_own(tmp_path: Path) -> None:
    """Such as two containers: the folders stand for their file systems."""
    names = {WorkerIdentity(tmp_path / container / "offsets").name for container in ("a", "b")}
    assert len(names) == 2


def test_workers_that_share_the_offsets_have_names_of_their_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = WorkerIdentity(tmp_path / "offsets")
    with caplog.at_level(logging.WARNING):
        second = WorkerIdentity(tmp_path / "offsets")
    assert first.name != second.name
    assert "Give each worker its own file" in caplog.text
    first.release()
    second.release()


@pytest.mark.parametrize("content", ["", "standalone-", "\xff" * 200])
def test_a_file_without_a_name_gets_one(tmp_path: Path, content: str) -> None:
    file = tmp_path / f"offsets{SUFFIX}"
    file.write_text(content, encoding="latin-1")
    identity = WorkerIdentity(tmp_path / "offsets")
    assert file.read_text() == f"{identity.name}\n"
    identity.release()


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    assert WorkerIdentity(tmp_path / "file" / "offsets").name.startswith("standalone-")
    assert "cannot be kept" in caplog.text
