"""The doctor's findings, and its advice."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from headrace.worker.cli import doctor
from headrace.worker.cli.doctor import Verdict
from tests.held_ports import held_port


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and nothing that answers as Kafka."""
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "cluster_id", lambda *_, **__: None)


def report(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, str]]]:
    code = doctor.run("127.0.0.1:9", as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is (code == 0)
    return code, {check["name"]: check for check in told["checks"]}


def test_missing_jars_and_broker_are_warnings_with_advice(capsys: pytest.CaptureFixture[str]) -> None:
    code, checks = report(capsys)
    assert code == 0
    for name, advice in (
        ("kafka jars", "headrace.plugins.interop.jvm.jars"),
        ("spark jars", "headrace"),
        ("broker", "kafka start"),
    ):
        assert checks[name]["state"] == "warn"
        assert advice in checks[name]["advice"]


def test_no_java_means_that_headrace_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, checks = report(capsys)
    assert code == 3
    assert checks["Java"]["state"] == "fail"
    assert "install a JDK" in checks["Java"]["found"]


def test_a_missing_wheel_means_that_headrace_cannot_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "_WHEELS", ("no-such-wheel",))
    code, checks = report(capsys)
    assert code == 3
    assert "pip install" in checks["no-such-wheel"]["advice"]


def test_a_taken_rest_port_is_a_warning_that_says_who(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(doctor, "_REST_PORT", taken.getsockname()[1])
        monkeypatch.setattr(doctor, "_BROKER_PORT", taken.getsockname()[1])
        rest, broker = doctor._rest_port(), doctor._broker_port()
    assert (rest.state, broker.state) == (Verdict.WARN, Verdict.WARN)
    assert "taken by" in rest.found
    assert "listeners=" in rest.advice
    assert "does not answer as Kafka" in broker.found


def test_free_ports_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_REST_PORT", held_port())
    assert doctor._rest_port().state is Verdict.OK


def test_the_report_for_people_has_every_check_and_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.run("127.0.0.1:9", as_json=False) == 0
    out = capsys.readouterr().out
    for name in ("Python", "Java", "pyspark", "kafka jars", "port 8083", "broker"):
        assert name in out
    assert out.rstrip().endswith("Headrace can run here")


def test_a_cache_that_cannot_be_written_matters_only_while_something_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    assert doctor._cache().state is Verdict.FAIL
    monkeypatch.setattr(doctor, "unverified", lambda _: [])
    assert doctor._cache().state is Verdict.WARN
