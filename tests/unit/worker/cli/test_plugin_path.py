"""`connect-plugin-path`: Apache's arguments, columns and exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.worker.cli.plugin_path import run
from tests.made_jars import HEADER_CONVERTER, PROVIDER, SINK, SOURCE, class_file, jar

ONE, VAULT, HEADERS = "org.example.OneConnector", "org.example.VaultConfigProvider", "org.example.In$MyHeaderConverter"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    classes = {ONE: class_file(ONE, SOURCE), VAULT: class_file(VAULT, implements=[PROVIDER])}
    jar(tmp_path / "path" / "p-2.1.jar", classes, {PROVIDER: VAULT, SINK: "org.example.Gone"})
    jar(tmp_path / "path" / "q" / "plain.jar", {HEADERS: class_file(HEADERS, implements=[HEADER_CONVERTER])})
    return tmp_path / "path"


def test_plugins_are_listed_with_apaches_columns(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "--plugin-path", str(path)]) == 0
    jar_, folder = str(path / "p-2.1.jar"), str(path / "q")
    assert [line.split("\t") for line in capsys.readouterr().out.splitlines()] == [
        [
            *("pluginName", "firstAlias", "secondAlias", "pluginVersion", "pluginType"),
            *("isLoadable", "hasManifest", "pluginLocation"),
        ],
        [ONE, "OneConnector", "One", "2.1", "source", "true", "false", jar_],
        [VAULT, "VaultConfigProvider", "Vault", "2.1", "configprovider", "true", "true", jar_],
        ["org.example.Gone", "N/A", "N/A", "undefined", "sink", "false", "true", jar_],
        [HEADERS, "MyHeaderConverter", "My", "undefined", "header_converter", "true", "false", folder],
        [""],
        ["Total plugins:      ", "4"],
        ["Loadable plugins:   ", "3"],
        ["Compatible plugins: ", "1"],
    ]


def test_locations_come_from_all_three_arguments(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = tmp_path / "worker.properties"
    worker.write_text(f"plugin.path={path / 'q'} , {path / 'p-2.1.jar'}\n")
    assert run(["list", "--worker-config", str(worker), "--plugin-location", str(path / "q")]) == 0
    told = capsys.readouterr().out
    assert ONE in told
    assert f"header_converter\ttrue\tfalse\t{path / 'q' / 'plain.jar'}" in told
    assert f"header_converter\ttrue\tfalse\t{path / 'q'}\n" in told


def test_a_dry_run_tells_what_a_run_does(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (path / "p-2.1.jar").read_bytes()
    assert run(["sync-manifests", "--dry-run", "--plugin-path", str(path)]) == 0
    told = capsys.readouterr().out
    assert told.startswith("Dry run started: No changes will be committed.\nScanning for plugins...\n")
    assert f"Dry Run Sync\t{path / 'p-2.1.jar'} Add 1 Remove 1\n\tAdd\t{ONE}\n\tRemove\torg.example.Gone\n" in told
    assert (path / "p-2.1.jar").read_bytes() == before
    assert run(["sync-manifests", "--plugin-path", str(path)]) == 0
    assert "All loadable plugins have accurate ServiceLoader manifests." in capsys.readouterr().out
    assert run(["sync-manifests", "--plugin-path", str(path)]) == 0
    assert capsys.readouterr().out == "Scanning for plugins...\nNo changes required.\n"
    assert run(["list", "--plugin-path", str(path)]) == 0
    assert "Compatible plugins: \t3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--help"], 0, "usage: connect-plugin-path"),
        ([], 1, "usage: connect-plugin-path"),
        (["list"], 1, "Must specify at least one --plugin-location, --plugin-path, or --worker-config"),
        (["mend", "--plugin-path", "x"], 1, "invalid choice"),
        (["list", "--plugin-path", "/not/there"], 3, "Unable to parse plugin path /not/there"),
        (["list", "--plugin-location", "/not/there"], 2, "Specified location /not/there does not exist"),
        (["list", "--worker-config", "/not/there"], 2, "Unable to read worker config at /not/there"),
    ],
)
def test_exit_codes_are_apaches(arguments: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == code
    captured = capsys.readouterr()
    assert told in captured.out + captured.err
