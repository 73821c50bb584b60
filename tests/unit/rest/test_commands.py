"""Arguments, usage and exit codes of `connect-standalone`."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from headrace.rest import commands


@pytest.mark.parametrize("arguments", [[], ["-daemon"], ["--help"]])
def test_connect_standalone_prints_its_usage_to_stdout(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.standalone(arguments) == 1
    out, err = capsys.readouterr()
    assert out.startswith("USAGE: connect-standalone [-daemon] worker.properties")
    assert err == ""


def test_connect_standalone_names_all_files_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text("")
    assert commands.standalone([str(worker), str(tmp_path / "one.json"), str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "one.json: No such file" in err
    assert f"{tmp_path}: Is a directory" in err
    assert "worker.properties" not in err


def test_connect_standalone_hands_over_and_answers_what_the_worker_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / name for name in ("w.properties", "a.properties", "b.json")]
    for path in files:
        path.write_text("")
    called: list[tuple[Path, list[Path]]] = []
    played = types.ModuleType("headrace.rest.standalone")
    played.run = lambda worker, connectors: called.append((worker, connectors)) or 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, played.__name__, played)
    monkeypatch.setattr("headrace.rest.standalone", played, raising=False)
    assert commands.standalone([str(path) for path in files]) == 3
    assert called == [(files[0], files[1:])]
