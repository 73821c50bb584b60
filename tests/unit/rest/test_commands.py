"""Arguments, usage and exit codes of `connect-standalone`."""

from __future__ import annotations

import subprocess
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.rest import commands
from headrace.rest.mirror import MirrorService

MODULE = [sys.executable, "-m", "headrace.rest.commands", "connect-standalone"]


@pytest.mark.parametrize("arguments", [[], ["-daemon"]])
def test_connect_standalone_prints_its_usage_to_stdout(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.standalone(arguments) == 1
    out, err = capsys.readouterr()
    assert out.startswith("USAGE: connect-standalone [-daemon] worker.properties")
    assert err == ""


@pytest.mark.parametrize(
    ("command", "argument"),
    [
        (commands.standalone, "connector1.properties"),
        (commands.distributed, "worker.properties"),
        (commands.mirror_maker, "--clusters"),
    ],
)
@pytest.mark.parametrize("asked", ["-h", "--help"])
def test_help_has_the_arguments_and_is_no_error(
    command: Callable[[list[str]], int], argument: str, asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command([asked]) == 0
    out, err = capsys.readouterr()
    assert any(line.strip().startswith(argument) for line in out.splitlines()), out
    assert "-daemon" in out
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
    called: list[tuple[Path, list[Path], object]] = []
    played = types.ModuleType("headrace.worker.process.commands")
    played.standalone = lambda *given: called.append(given) or 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, played.__name__, played)
    assert commands.standalone([str(path) for path in files]) == 3
    assert called == [(files[0], files[1:], commands.serve)]


def test_it_is_a_module_to_run_and_its_usage_waits_for_nothing_heavy() -> None:
    run = subprocess.run([sys.executable, "-X", "importtime", *MODULE[1:]], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stdout.startswith("USAGE: connect-standalone")
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in run.stderr.splitlines()}
    assert "headrace" in loaded
    assert not loaded & {"pyspark", "py4j", "fastapi", "uvicorn", "confluent_kafka", "pyarrow", "pandas"}


def test_sparks_jvm_waits_for_nothing_that_can_be_imported_beside_it() -> None:
    said = "import headrace.worker.process.commands, sys; print(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.splitlines())
    assert "headrace.worker.engine.driver" in loaded
    assert not loaded & {"pyspark", "fastapi", "uvicorn", "confluent_kafka", "pyarrow", "pandas"}


def test_a_refused_config_ends_with_2_and_names_what_is_missing(tmp_path: Path) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text("bootstrap.servers=127.0.0.1:1\n")
    run = subprocess.run([*MODULE, str(worker)], capture_output=True, text=True, check=False)
    assert run.returncode == 2, run.stderr
    assert str(worker) in run.stdout
    for key in ("key.converter", "value.converter", "offset.storage.file.filename"):
        assert key in run.stdout


def test_as_a_daemon_it_returns_at_once_and_writes_to_log_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text("bootstrap.servers=127.0.0.1:1\n")
    monkeypatch.setenv("LOG_DIR", str(tmp_path / "logs"))
    assert commands.standalone(["-daemon", str(worker)]) == 0
    output = tmp_path / "logs" / "connectStandalone.out"
    assert str(output) in capsys.readouterr().out
    deadline = time.monotonic() + 60
    while "key.converter" not in output.read_text():
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.05)


@pytest.mark.parametrize("arguments", [[], ["-daemon"], ["/no/such.properties"], ["--clusters", "A"], ["-x"]])
def test_connect_mirror_maker_refuses_arguments_as_apaches_does(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.mirror_maker(arguments) == 255
    out, err = capsys.readouterr()
    assert "usage: connect-mirror-maker [-daemon] mm2.properties [--clusters CLUSTER ...]" in out + err
    assert ("/no/such.properties: No such file" in err) is (arguments[:1] == ["/no/such.properties"])


def test_connect_mirror_maker_hands_over_its_file_and_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("")
    called: list[tuple[Path, list[str], object]] = []
    played = types.ModuleType("headrace.worker.process.mirror")
    played.run = lambda *given: called.append(given) or 3  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, played.__name__, played)
    assert commands.mirror_maker([str(file)]) == 3
    assert commands.mirror_maker([str(file), "--clusters", "A", "B"]) == 3
    assert called == [(file, [], MirrorService), (file, ["A", "B"], MirrorService)]
