"""Coordinates with ranges mean the latest release in them; what is no repository is refused. Ivy is played."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.plugins.interop.jvm.jars import Unavailable
from headrace.worker.machine import maven
from headrace.worker.machine.maven import (
    Coordinates,
    UnknownArtifactError,
    checked_repository,
    chosen,
    run_ivy,
    settings_for,
)

MINE = "https://repository.example.org/maven"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(maven, "ivy_command", lambda folder, settings, module: [settings, module])


def play(monkeypatch: pytest.MonkeyPatch, *lines: str) -> list[Sequence[str]]:
    commands: list[Sequence[str]] = []

    def run(command: Sequence[str], silence_s: float) -> tuple[int, list[str]]:
        assert 60 < silence_s < 100
        commands.append(command)
        return 1, list(lines)

    monkeypatch.setattr(maven, "run_ivy", run)
    return commands


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("latest", "3.10.0.Final"),
        ("[3.0,4)", "3.10.0.Final"),
        ("[2.7,3.0)", "2.7.4.Final"),
        ("(,2.7.4)", "2.7.3.Final"),
        ("[4.0.0.Alpha1,)", "4.0.0.Alpha2"),
        ("[2.7.3.Final]", "2.7.3.Final"),
        ("1.2", "1.2"),
    ],
)
def test_the_latest_release_in_a_range_is_chosen(version: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = "\tfound revs: [2.7.3.Final, 3.10.0.Final, 3.9.1.Final, 3.10.1.CR1]\n"
    play(monkeypatch, first, "\tfound revs: [4.0.0.Alpha2, 4.0.0.Alpha1, 2.7.4.Final, 3.0.0.Beta1]\n")
    assert chosen(Coordinates("org.x", "one", version)).version == expected


def test_no_version_in_a_range_is_told_with_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    play(monkeypatch, "\tfound revs: [1.0, 1.1]\n")
    with pytest.raises(
        UnknownArtifactError, match=r"Maven Central has no org\.x:one:\[9,\); the latest are 1\.0, 1\.1"
    ):
        chosen(Coordinates.parse("org.x:one:[9,)"))
    play(monkeypatch, "nothing\n")
    with pytest.raises(UnknownArtifactError, match=r"has no org\.x:one; look"):
        chosen(Coordinates.parse("org.x:one:latest"))
    play(monkeypatch, "java.net.UnknownHostException: there\n")
    with pytest.raises(Unavailable, match="Check the network"):
        chosen(Coordinates.parse("org.x:one:latest"))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            f"ERROR: Server access error at url {MINE}/org/x/ (java.net.ConnectException: refused)",
            "refused.*HTTPS_PROXY",
        ),
        (f"x url {MINE}/org/x/ (javax.net.ssl.SSLHandshakeException: PKIX path)", "PKIX path.*trustStore"),
        (f"SERVER ERROR: Bad Gateway url={MINE}/org/x/", "Bad Gateway"),
        (f"HTTP response status: 401 url={MINE}/org/x/", "wants a login.*HEADRACE_IVY_SETTINGS"),
    ],
)
def test_a_repository_without_an_answer_is_not_passed_over(
    line: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(monkeypatch, line.replace("x url", "Server access error at url"), "\tfound revs: [1.0]\n")
    with pytest.raises(Unavailable, match=f"the repository {MINE} could not be asked .*{why}"):
        chosen(Coordinates.parse("org.x:one:latest"), [MINE])
    play(monkeypatch, line.replace(MINE, "https://repo.central"), "\tfound revs: [1.0]\n")
    assert chosen(Coordinates.parse("org.x:one:latest"), [MINE]).version == "1.0"


def test_an_ivy_that_says_nothing_more_is_ended_with_its_last_address() -> None:
    says = "import time; print('x', flush=True); print('listing http://mine/x', flush=True); time.sleep(100)"
    with pytest.raises(Unavailable, match=r"said nothing for 0 s \(listing http://mine/x\); try again"):
        run_ivy([sys.executable, "-c", says], silence_s=0.3)
    assert run_ivy([sys.executable, "-c", "print('done')"], silence_s=30) == (0, ["done\n"])
    assert run_ivy([sys.executable, "-c", "print('done')"]) == (0, ["done\n"])


def test_a_repository_is_asked_before_maven_central(monkeypatch: pytest.MonkeyPatch) -> None:
    commands = play(monkeypatch, "\tfound revs: [1.0]\n")
    assert chosen(Coordinates.parse("org.x:one:latest"), [MINE]).version == "1.0"
    settings = commands[0][0]
    assert 0 < settings.index(f'root="{MINE}"') < settings.index('name="central"')
    assert 'root="file:///a&amp;b"' in settings_for(["file:///a&b"], use_poms=True)


@pytest.mark.parametrize("url", [MINE, "file:///opt/repository", "http://localhost:8081/releases"])
def test_repositories_are_taken(url: str) -> None:
    assert checked_repository(url) == url


@pytest.mark.parametrize(
    "url", ["http://repository.example.org/maven", "/opt/repository", "ftp://x/y", "https://", "central", ""]
)
def test_what_is_no_safe_repository_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="https://…"):
        checked_repository(url)


def test_a_password_in_a_repository_is_refused_and_not_repeated() -> None:
    with pytest.raises(ValueError, match="HEADRACE_IVY_SETTINGS") as refused:
        checked_repository("https://me:hidden@repository.example.org/maven")
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["", "one", "org:one", "org:one:1:2", "org:one:", "../x:one:1", "org:one:1/2", "org:one:[1,", "org:one:1,2"]
)
def test_what_names_no_artifact_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"GROUP:ARTIFACT:VERSION|ranges are written"):
        Coordinates.parse(text)


def test_coordinates_read_as_they_were_written() -> None:
    assert str(Coordinates.parse("io.debezium:debezium-connector-postgres:3.5.0.Final")).endswith(":3.5.0.Final")
    assert str(Coordinates.parse("org.x:one:[3.0,4)")) == "org.x:one:[3.0,4)"
