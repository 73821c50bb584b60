"""`headrace plugins` lists Python plugins, and installs them with what they need; pip itself is the real one."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.worker.cli.commands import app
from headrace.worker.cli.plugin_lock import LOCK, content, read

SINK = """
from headrace.plugins import RecordSink

class {name}(RecordSink):
    version = "1.5"

    def put(self, records): ...
"""
NEEDS = '# /// script\n# dependencies = ["{}"]\n# ///\n'


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("cli_", "hr_")):
            del sys.modules[name]


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels from which alone pip installs."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def wheel(folder: Path, name: str, version: str, requires: str = "", entries: str = "", code: str = "") -> Path:
    info = f"{name}-{version}.dist-info"
    needed = f"Requires-Dist: {requires}\n" if requires else ""
    files = {
        f"{name}.py": code or f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entries,
    }
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in files.items():
            archive.writestr(inside, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{inside},,\n" for inside in (*files, f"{info}/RECORD")))
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["plugins", *map(str, arguments)])
    return result.exit_code, result.output


def test_a_file_is_installed_with_what_it_needs_listed_and_removed(tmp_path: Path, index: Path) -> None:
    wheel(index, "hr_lib", "1.0", requires="hr_deep")
    wheel(index, "hr_deep", "2.0")
    path = tmp_path / "path"
    file = tmp_path / "cli_prices.py"
    file.write_text(NEEDS.format("hr_lib<2") + "import hr_deep, hr_lib\n" + SINK.format(name="Prices"))
    code, told = run("install", file, "--plugin-path", path)
    assert code == 0, told
    assert "hr_deep==2.0, hr_lib==1.0" in told
    assert sorted(one.name for one in path.iterdir()) == ["cli_prices.py", LOCK, "python-requirements"]
    code, told = run("--plugin-path", path)
    assert code == 0
    assert f"{path / 'cli_prices.py'}\n  sink\tPrices\t1.5\n" in told
    assert "Passed over" not in told
    assert run("remove", "cli_prices.py", "--plugin-path", path)[0] == 0
    assert not (path / "cli_prices.py").exists()


def test_a_wheel_replaces_an_older_one(tmp_path: Path, index: Path) -> None:
    path = tmp_path / "path"
    entries = "[headrace.sink]\norg.example.Shop = cli_shop:Shop\n"
    for version in ("1.9", "1.10"):
        built = wheel(tmp_path, "cli_shop", version, entries=entries, code=SINK.format(name="Shop"))
        assert run("install", built, "--plugin-path", path)[0] == 0
    assert sorted(one.name for one in path.iterdir()) == ["cli_shop-1.10-py3-none-any.whl", LOCK]
    assert [(one.name, one.version) for one in read(path)] == [("cli_shop-1.10-py3-none-any.whl", "1.10")]


def other_folder(path: Path, name: str, alter: Callable[[str], str] = str) -> Path:
    """A folder that has only the lock file of another."""
    folder = path.parent / name
    folder.mkdir()
    (folder / LOCK).write_text(alter((path / LOCK).read_text()))
    return folder


def test_the_lock_file_brings_what_python_plugins_need_back_or_says_why_not(tmp_path: Path, index: Path) -> None:
    lib, deep = wheel(index, "hr_lib", "1.0", requires="hr_deep"), wheel(index, "hr_deep", "2.0")
    path = tmp_path / "path"
    for name in ("One", "Two"):
        file = tmp_path / f"cli_{name.lower()}.py"
        file.write_text(NEEDS.format("hr_lib") + SINK.format(name=name))
        assert run("install", file, "--plugin-path", path)[0] == 0
    python = content(path).python
    assert python is not None
    hashes = [hashlib.sha256(one.read_bytes()).hexdigest() for one in (deep, lib)]
    assert python.lines == (f"hr_deep==2.0 --hash=sha256:{hashes[0]}", f"hr_lib==1.0 --hash=sha256:{hashes[1]}")
    wheel(index, "hr_lib", "1.1")
    same = other_folder(path, "same")
    code, told = run("install", "--plugin-path", same)
    assert code == 0, told
    assert (same / LOCK).read_bytes() == (path / LOCK).read_bytes()
    assert found(same) == found(path) == {"hr_deep-2.0.dist-info", "hr_lib-1.0.dist-info"}
    for name, alter, why in (
        (
            "altered",
            lambda text: text.replace(hashes[1], "0" * 64),
            f"the sha256 of hr_lib==1.0 is {hashes[1]}, not 00",
        ),
        ("lacking", lambda text: text.replace(f'"{python.lines[0]}",', ""), "hr_deep for hr-lib: none is there"),
        ("other", lambda text: text.replace(python.lines[0], "packaging==1.0"), ", not 1.0"),
    ):
        folder = other_folder(path, name, alter)
        code, told = run("install", "--plugin-path", folder)
        assert (code, [one.name for one in folder.iterdir()]) == (1, [LOCK]), told
        assert why in told
        assert "What the Python plugins need cannot be installed as the lock file has it" in told


def found(path: Path) -> set[str]:
    return {one.name for one in (path / "python-requirements").glob("*.dist-info")}


def test_a_lock_file_of_an_older_version_resolves_anew_and_says_so(tmp_path: Path, index: Path) -> None:
    wheel(index, "hr_lib", "1.0")
    file = tmp_path / "cli_one.py"
    file.write_text(NEEDS.format("hr_lib") + SINK.format(name="One"))
    assert run("install", file, "--plugin-path", tmp_path / "path")[0] == 0
    wheel(index, "hr_lib", "1.1")
    old = other_folder(tmp_path / "path", "old", lambda text: text.replace('"python":', '"passed over":'))
    before = (old / LOCK).read_bytes()
    code, told = run("install", "--plugin-path", old)
    assert (code, found(old), (old / LOCK).read_bytes()) == (0, {"hr_lib-1.1.dist-info"}, before)
    assert "an earlier version of Headrace wrote it" in told
    assert run("remove", "cli_one.py", "--plugin-path", tmp_path / "path")[0] == 0
    assert content(tmp_path / "path").python is None


def test_requirements_that_exclude_each_other_are_told_and_change_nothing(tmp_path: Path, index: Path) -> None:
    wheel(index, "hr_lib", "1.0")
    wheel(index, "hr_lib", "2.0")
    path, where = tmp_path / "path", ("--plugin-path", tmp_path / "path")
    for name, needed in (
        ("One", "hr_lib<2"),
        ("Two", "hr_lib>=2"),
        ("Three", "packaging<1"),
        ("Four", "python-nosuch"),
    ):
        file = tmp_path / f"cli_{name.lower()}.py"
        file.write_text(NEEDS.format(needed) + SINK.format(name=name))
    assert run("install", tmp_path / "cli_one.py", *where)[0] == 0
    code, told = run("install", tmp_path / "cli_two.py", *where)
    assert code == 1
    assert f"{path / 'cli_one.py'}: hr_lib<2" in told
    assert "cli_two.py: hr_lib>=2" in told
    code, told = run("install", tmp_path / "cli_three.py", *where)
    assert code == 1
    assert "packaging<1: 2" in told
    assert "No matching distribution found for python-nosuch" in run("install", tmp_path / "cli_four.py", *where)[1]
    (tmp_path / "cli_four.py").write_text('# /// script\n# requires-python = "<3"\n# ///' + SINK.format(name="Four"))
    assert "python<3: 3." in run("install", tmp_path / "cli_four.py", *where)[1]
    assert sorted(one.name for one in path.iterdir()) == ["cli_one.py", LOCK, "python-requirements"]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("cli_gone.py", None, "is not there"),
        ("cli_none.py", "x = 1\n", "holds no plugin"),
        (".", None, "by hand first"),
    ],
)
def test_what_is_no_plugin_is_refused(tmp_path: Path, name: str, text: str | None, told: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    code, said = run("install", tmp_path / name, "--plugin-path", tmp_path / "path")
    assert (code, (tmp_path / "path").exists()) == (3 if "gone" in name else 2, False)
    assert told in said.replace("\n", " ")


def test_the_listing_says_what_was_passed_over_and_why(tmp_path: Path) -> None:
    for name, text in {
        "cli_broken.py": "x =",
        "cli_half.py": "from headrace.plugins import RecordSink\nclass Half(RecordSink): ...\n",
        "cli_whole.py": SINK.format(name="Whole"),
        "cli_again.py": SINK.format(name="Whole"),
        "cli_helper.py": "x = 1\n",
        "json.py": SINK.format(name="Json"),
        "cli_needs.py": NEEDS.format("no-such>=3") + SINK.format(name="Needs"),
    }.items():
        (tmp_path / name).write_text(text)
    wheel(tmp_path, "cli_bare", "1.0")
    (tmp_path / "bad.jar").write_text("no jar")
    (tmp_path / "cli_bad-1.0-py3-none-any.whl").write_text("no wheel")
    code, told = run("--json", "--plugin-path", f"{tmp_path},{tmp_path / 'gone'}")
    assert code == 0
    found = json.loads(told)
    assert [(one["class_name"], one["location"]) for one in found["plugins"]] == [
        ("Whole", str(tmp_path / "cli_again.py"))
    ]
    assert found["shipped"] > 50
    for start, why in (
        (f"The plugins in {tmp_path / 'cli_broken.py'} cannot be listed", "invalid syntax"),
        (f"The sink plugin Half ({tmp_path / 'cli_half.py'}) cannot be loaded", "does not define put"),
        (f"The plugin Whole is in {tmp_path / 'cli_again.py'}", "the first one is used"),
        (f"{tmp_path / 'cli_helper.py'} holds no plugin", "no class in it derives from"),
        (f"{tmp_path / 'json.py'} is left out", "that of the module"),
        (f"The plugins in {tmp_path / 'cli_needs.py'} cannot be used", "no-such>=3, which is not installed"),
        (f"{tmp_path / 'cli_bare-1.0-py3-none-any.whl'} holds no plugin", "no entry point"),
        (f"plugin.path names {tmp_path / 'gone'}", "does not exist"),
        (f"{tmp_path / 'bad.jar'}", "no jar"),
        (f"{tmp_path / 'cli_bad-1.0-py3-none-any.whl'} holds no plugin", "no archive that can be read"),
    ):
        assert [line for line in found["passed_over"] if line.startswith(start) and why in line], (start, told)


def test_an_option_before_a_command_is_not_passed_over(tmp_path: Path) -> None:
    code, told = run("--plugin-path", tmp_path, "list")
    assert code == 2
    assert "`headrace plugins list --plugin-path …`" in told


def test_those_that_come_with_headrace_are_listed_on_demand() -> None:
    code, told = run("--all", "--plugin-path", "")
    assert code == 0
    assert "  source\torg.apache.kafka.connect.file.FileStreamSourceConnector\t" in told
    assert "come with Headrace" not in told
