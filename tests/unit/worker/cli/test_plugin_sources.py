"""Plugins from archives and ranges: the lock file has what was installed, and brings the same back."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.worker.cli import plugin_install, plugin_sources
from headrace.worker.cli.commands import app
from headrace.worker.cli.plugin_lock import LOCK, read
from headrace.worker.machine.maven import Coordinates, UnknownArtifactError
from tests.fake_pip import FakePip, locked, sha256
from tests.made_jars import SOURCE, class_file, jar

ONE = "org.example.OneSource"
HUB = {"name": "kafka-connect-one", "version": "2.5.0", "owner": {"username": "example"}}
RANGE = "org.example:one:[1.0,2)"


class Repository:
    """Versions that are published, the latest one last, and what each jar holds."""

    def __init__(self) -> None:
        self.versions = ["1.0"]
        self.asked: list[tuple[str, Sequence[str]]] = []
        self.java = 17
        self.mark = ""

    def chosen(self, wanted: Coordinates, repositories: Sequence[str] = ()) -> Coordinates:
        if not wanted.is_open:
            return wanted
        return Coordinates(wanted.group, wanted.artifact, self.versions[-1])

    def fetch_into(self, wanted: Coordinates, folder: Path, repositories: Sequence[str] = ()) -> list[Path]:
        self.asked.append((str(wanted), tuple(repositories)))
        if wanted.version not in self.versions:
            raise UnknownArtifactError(f"no {wanted}")
        classes = {ONE: class_file(ONE, SOURCE, java=self.java)} if wanted.artifact == "one" else {}
        name = f"{wanted.artifact}-{wanted.version}.jar"
        return [jar(folder / name, classes, files={"version": wanted.version + self.mark})]


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository()
    monkeypatch.setattr(plugin_sources, "chosen", made.chosen)
    monkeypatch.setattr(plugin_install, "fetch_into", made.fetch_into)
    monkeypatch.setattr("time.time", lambda: 1_700_000_000)  # of the entries in a jar: the same jar each time
    return made


def run(path: Path, command: str, *arguments: object, java: int = 17) -> tuple[int, str]:
    given = [] if command == "remove" else ["--for-java", str(java)]
    line = ["plugins", command, *map(str, arguments), "--plugin-path", str(path), *given]
    result = CliRunner().invoke(app, line)
    return result.exit_code, result.output


def hub_archive(path: Path, manifest: object = HUB, java: int = 11) -> Path:
    inner = jar(path.parent / "inner.jar", {ONE: class_file(ONE, SOURCE, java=java)})
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("example-one/manifest.json", json.dumps(manifest))
        made.writestr("example-one/doc/README.md", "read me")
        made.write(inner, "example-one/lib/one.jar")
        made.write(inner, "example-one/lib/slf4j-api-1.7.36.jar")
    return path


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_confluent_hub_archive_is_installed_by_its_manifest(repository: Repository, tmp_path: Path) -> None:
    path, archive = tmp_path / "path", hub_archive(tmp_path / "download.zip")
    code, told = run(path, "install", archive, "--sha256", sha256_of(archive), "--with", "org.x:driver:1.0")
    assert code == 0, told
    folder = path / "example-kafka-connect-one-2.5.0"
    assert sorted(one.name for one in folder.rglob("*.jar")) == ["driver-1.0.jar", "one.jar"]
    assert f"source\t{ONE}" in told
    assert "needs Java 11 (by one.jar)" in told
    (entry,) = read(path)
    assert (entry.kind, entry.source, entry.version, entry.checksum) == (
        *("archive", str(archive), "2.5.0"),
        sha256_of(archive),
    )
    assert entry.beside == ("org.x:driver:1.0",)
    assert "is installed already" in run(path, "install", archive)[1]
    hub_archive(archive, java=17)
    code, told = run(path, "install", archive)
    assert (code, "is there already" in told) == (2, True)


@pytest.mark.parametrize(
    ("name", "folder", "version"),
    [
        ("debezium-connector-mysql-3.5.0.Final-plugin.zip", "debezium-connector-mysql-3.5.0.Final", "3.5.0.Final"),
        ("some-plugin.zip", "some-plugin", ""),
        ("one-v1.2.zip", "one-1.2", "1.2"),
    ],
)
def test_an_archive_without_a_manifest_is_named_by_its_file(
    name: str, folder: str, version: str, repository: Repository, tmp_path: Path
) -> None:
    assert run(tmp_path / "path", "install", hub_archive(tmp_path / name, {}))[0] == 0
    (entry,) = read(tmp_path / "path")
    assert (entry.name, entry.version) == (folder, version)


def test_archives_that_are_no_plugin_leave_nothing(repository: Repository, tmp_path: Path) -> None:
    path, archive = tmp_path / "path", hub_archive(tmp_path / "one.zip")
    code, told = run(path, "install", archive, "--sha512", "0" * 128)
    assert (code, "is not the file that was meant" in told) == (1, True)
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as made:
        made.writestr("README", "")
    code, told = run(path, "install", tmp_path / "empty.zip")
    assert (code, "no jar is in it" in told) == (1, True)
    code, told = run(path, "install", hub_archive(tmp_path / "odd.zip", HUB | {"version": "../../x"}))
    assert (code, "none of a folder" in told) == (1, True)
    assert run(path, "install", tmp_path / "gone.zip")[0] == 3
    assert list(path.iterdir()) == []


def test_the_lock_file_brings_the_same_back(repository: Repository, tmp_path: Path) -> None:
    path, archive = tmp_path / "path", hub_archive(tmp_path / "one.zip")
    mine = "https://repository.example.org/maven"
    assert run(path, "install", RANGE, "--repository", mine, "--with", "org.x:driver:latest")[0] == 0
    assert run(path, "install", archive)[0] == 0
    repository.versions.append("1.5")
    other = tmp_path / "other"
    other.mkdir()
    (other / LOCK).write_bytes((path / LOCK).read_bytes())
    assert "(locked, not installed)" in run(other, "list")[1]
    repository.asked.clear()
    code, told = run(other, "install")
    assert code == 0, told
    assert sorted(repository.asked) == [("org.example:one:1.0", (mine,)), ("org.x:driver:1.0", (mine,))]
    assert sorted(one.name for one in other.iterdir()) == sorted(one.name for one in path.iterdir())
    assert (other / LOCK).read_bytes() == (path / LOCK).read_bytes()
    assert f"asked for {RANGE}, version 1.0, checksum " in run(other, "list")[1]
    told = run(other, "install")[1]
    assert (told.count("is installed already"), "than the lock file" in told) == (2, False)
    jar(other / "one-1.0" / "by-hand.jar")
    assert "one-1.0 has other jars than the lock file" in run(other, "install")[1]


def test_other_jars_than_those_that_are_locked_are_refused(repository: Repository, tmp_path: Path) -> None:
    path, archive = tmp_path / "path", hub_archive(tmp_path / "two.zip")
    assert run(path, "install", "org.example:one:1.0")[0] == 0
    assert run(path, "remove", "one-1.0")[0] == 0
    assert not (path / LOCK).exists()
    assert run(path, "install", "org.example:one:1.0")[0] == 0
    assert run(path, "install", archive)[0] == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / LOCK).write_bytes((path / LOCK).read_bytes())
    repository.mark = " altered"
    code, told = run(other, "install")
    assert (code, "is not what the lock file has" in told) == (1, True)
    assert not (other / "one-1.0").exists()
    assert run(other, "remove", "example-kafka-connect-one-2.5.0")[0] == 0
    (other / LOCK).write_bytes((path / LOCK).read_bytes())
    hub_archive(archive, java=12)
    code, told = run(other, "install")
    assert (code, "is not the file that was meant" in told) == (1, True)
    assert [one.name for one in read(other)] == [one.name for one in read(path)]


def test_an_upgrade_stays_within_what_was_asked_for(repository: Repository, tmp_path: Path) -> None:
    assert run(tmp_path, "install", RANGE, "--with", "org.x:driver:latest")[0] == 0
    assert f"is the latest of {RANGE}" in run(tmp_path, "upgrade")[1]
    repository.versions.append("1.5")
    code, told = run(tmp_path, "upgrade", "one")
    assert (code, "one-1.0 was replaced by one-1.5" in told) == (0, True)
    assert sorted(one.name for one in tmp_path.iterdir()) == [LOCK, "one-1.5"]
    (entry,) = read(tmp_path)
    assert (entry.asked, entry.source, entry.beside) == (RANGE, "org.example:one:1.5", ("org.x:driver:1.5",))
    assert sorted(one.name for one in (tmp_path / "one-1.5").glob("*.jar")) == ["driver-1.5.jar", "one-1.5.jar"]
    repository.versions.append("1.6")
    repository.java = 21
    code, told = run(tmp_path, "upgrade")
    assert (code, "needs Java 21" in told) == (1, True)
    assert [one.version for one in read(tmp_path)] == ["1.5"]
    code, told = run(tmp_path, "upgrade", "nothing")
    assert (code, "there: one-1.5" in told) == (2, True)


def test_what_was_asked_for_exactly_stays(repository: Repository, tmp_path: Path) -> None:
    repository.versions.append("1.5")
    assert run(tmp_path / "path", "install", "org.example:one:1.0")[0] == 0
    assert run(tmp_path / "path", "install", hub_archive(tmp_path / "two.zip"))[0] == 0
    code, told = run(tmp_path / "path", "upgrade")
    assert code == 0
    assert "exactly org.example:one:1.0 was asked for" in told
    assert "install the new one from where it is" in told


def test_a_plugin_for_a_newer_java_is_refused_with_what_to_do(repository: Repository, tmp_path: Path) -> None:
    repository.java = 21
    code, told = run(tmp_path, "install", "org.example:one:1.0")
    assert code == 1
    assert "org.example:one:1.0 needs Java 21 (by one-1.0.jar), and the worker's is 17" in told
    assert "JAVA_HOME" in told
    assert list(tmp_path.iterdir()) == []
    code, told = run(tmp_path, "install", "org.example:one:1.0", java=21)
    assert (code, "needs Java 21 (by one-1.0.jar)\n" in told) == (0, True)
    code, told = run(tmp_path, "list")
    assert (code, "the worker's is 17: install a JDK or JRE 21 or newer" in told) == (1, True)
    assert run(tmp_path, "list", java=21)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["https://x.org/plugin"], "names no .zip"),
        (["org.x:one:1", "--sha256", "0" * 64], "are for files"),
        (["tap-one", "--repository", "https://x.org"], "--repository is for"),
        (["a.zip", "--sha256", "0" * 64, "--sha512", "0" * 128], "say one of"),
        (["--with", "org.x:one:1"], "say what to install"),
        (["org.x:one:1", "--repository", "http://x.org"], "no repository that can be used"),
        (["org.x:one:[1,"], "names no version"),
        ([], f"{LOCK} is not there"),
    ],
)
def test_wrong_use_is_told(arguments: list[str], why: str, repository: Repository, tmp_path: Path) -> None:
    code, told = run(tmp_path, "install", *arguments)
    assert (code, repository.asked) == (2, [])
    assert why in told.replace("\n", " ")


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "{}",
        '{"format": 2, "plugins": []}',
        '{"format": 1, "plugins": [{"name": "../x", "kind": "maven"}]}',
        '{"format": 1, "plugins": [{"name": "x", "kind": "odd"}]}',
        '{"format": 1, "plugins": [{"name": "tap-x", "kind": "singer", "asked": "tap-x", "packages": ["--pre"]}]}',
        '{"format": 1, "plugins": [{"name": "tap-x", "kind": "singer", "packages": ["x==1 --pre"]}]}',
        '{"format": 1, "plugins": [], "python": {"packages": ["x==1\\n--pre"]}}',
    ],
)
def test_a_broken_lock_file_is_told_before_anything_is_installed(
    text: str, repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / LOCK).write_text(text)
    for command, *what in (["install"], ["install", "org.example:one:1.0"], ["list"], ["upgrade"]):
        code, told = run(tmp_path, command, *what)
        assert (code, LOCK in told) == (2, True)
    assert [one.name for one in tmp_path.iterdir()] == [LOCK]


def other_folder(path: Path, name: str, text: str | None = None) -> Path:
    """A folder that has only the lock file of another."""
    folder = path.parent / name
    folder.mkdir()
    (folder / LOCK).write_text((path / LOCK).read_text() if text is None else text)
    return folder


def test_a_tap_is_locked_with_its_packages_and_goes_back_if_it_cannot_be_upgraded(
    fake_pip: FakePip, tmp_path: Path
) -> None:
    path = tmp_path / "path"
    assert run(path, "install", "tap-one>=1")[0] == 0
    (entry,) = read(path)
    lines = tuple(map(locked, ["requests==2.32.0", "tap-one==1.0", "setuptools==65.5.0"]))
    assert (entry.source, entry.version, entry.packages) == ("tap-one==1.0", "1.0", lines)
    other = other_folder(path, "other")
    fake_pip.installed, fake_pip.closure[0] = [], "tap-one==1.1"
    assert run(other, "install")[0] == 0
    assert fake_pip.installed == list(lines)
    assert (other / LOCK).read_bytes() == (path / LOCK).read_bytes()
    code, told = run(path, "upgrade")
    assert (code, "tap-one 1.0 was replaced by 1.1" in told) == (0, True)
    (other / LOCK).write_text((path / LOCK).read_text().replace(sha256("tap-one==1.1"), "0" * 64))
    assert run(other, "install")[0] == 1
    assert recorded_packages(other) == lines
    (other / LOCK).write_text((path / LOCK).read_text())
    assert "was installed in" in run(other, "install")[1]
    assert recorded_packages(other) == read(path)[0].packages != lines
    assert "is installed already" in run(other, "install")[1]
    fake_pip.refuses, before = "tap-one>=1", (path / LOCK).read_bytes()
    assert run(path, "upgrade")[0] == 1
    assert ((path / LOCK).read_bytes(), sorted(one.name for one in path.iterdir())) == (before, [LOCK, "tap-one"])


def recorded_packages(path: Path) -> tuple[str, ...]:
    return tuple(json.loads((path / "tap-one" / plugin_install.RECORD).read_text())["packages"])


def test_packages_with_another_checksum_or_missing_ones_are_refused(fake_pip: FakePip, tmp_path: Path) -> None:
    path = tmp_path / "path"
    assert run(path, "install", "tap-one")[0] == 0
    text, right = (path / LOCK).read_text(), sha256("requests==2.32.0")
    altered = other_folder(path, "altered", text.replace(right, "0" * 64))
    code, told = run(altered, "install")
    assert (code, f"the sha256 of requests==2.32.0 is {right}, not {'0' * 64}" in told) == (1, True)
    assert "locked for Python 3.11 on linux x86_64, and this is Python 3.9 on linux x86_64" in told
    fake_pip.lacks = "tap-one 1.0 requires backports, which is not installed."
    lacking = other_folder(path, "lacking")
    code, told = run(lacking, "install")
    assert (code, "requires backports" in told) == (1, True)
    assert [[one.name for one in folder.iterdir()] for folder in (altered, lacking)] == [[LOCK], [LOCK]]


def test_a_lock_file_of_an_older_version_brings_the_same_versions_and_says_what_it_lacks(
    fake_pip: FakePip, tmp_path: Path
) -> None:
    entry = {"name": "tap-one", "kind": "singer", "asked": "tap-one", "source": "tap-one==1.0", "version": "1.0"}
    old = json.dumps({"format": 1, "plugins": [{**entry, "packages": ["Tap_One==1.0", "pip==23.0"]}]})
    folder = other_folder(tmp_path / "none", "old", old)
    code, told = run(folder, "install")
    assert (code, fake_pip.installed) == (0, ["Tap_One==1.0", "pip==23.0"])
    assert "no checksum of 2 packages of tap-one (tap-one, pip)" in told
    assert ("check" in fake_pip.calls[-2], (folder / LOCK).read_text()) == (False, old)
    assert "checksum" not in run(folder, "install")[1]


def test_what_was_asked_for_by_its_url_is_locked_by_its_checksum_or_commit(fake_pip: FakePip, tmp_path: Path) -> None:
    fake_pip.closure += ["one @ https://files/one.whl", "two @ https://git.example.org/two"]
    assert run(tmp_path / "path", "install", "tap-one")[0] == 0
    (entry,) = read(tmp_path / "path")
    assert entry.packages[:3:2] == (
        locked("one @ https://files/one.whl"),
        "tap-one==1.0 --hash=sha256:" + sha256("tap-one==1.0"),
    )
    assert "two @ git+https://git.example.org/two@abc#subdirectory=in" in entry.packages
    assert "checksum of" not in run(other_folder(tmp_path / "path", "other"), "install")[1]
