"""`headrace` finds the commands that plugins bring, and is quick where none is asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

from headrace.worker.cli import plugin_commands
from headrace.worker.cli.commands import app


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, EntryPoint]]:
    found: dict[str, EntryPoint] = {}
    monkeypatch.setattr(plugin_commands, "_entries", lambda: found)
    plugin_commands._of_plugin.cache_clear()
    yield found
    plugin_commands._of_plugin.cache_clear()


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, plugin_commands.GROUP)


def test_the_mirror_brings_its_command() -> None:
    shown = CliRunner().invoke(app, ["mirror", "verify", "--help"])
    assert shown.exit_code == 0, shown.output
    assert "--max-lag" in shown.output


def test_a_plugin_cannot_take_the_place_of_a_command(plugins: dict[str, EntryPoint]) -> None:
    plugins["doctor"] = entry("doctor", "nowhere:app")
    assert "missing" in CliRunner().invoke(app, ["doctor", "--help"]).output


def test_a_broken_plugin_breaks_no_other_command(plugins: dict[str, EntryPoint]) -> None:
    plugins["lost"] = entry("lost", "headrace.nowhere:app")
    listed = CliRunner().invoke(app, ["--help"])
    assert listed.exit_code == 0
    assert "doctor" in listed.output
    assert "lost" in listed.output
    run = CliRunner().invoke(app, ["lost"])
    assert run.exit_code == 3
    assert "headrace.nowhere:app" in run.output


def test_help_loads_no_kafka_client() -> None:
    said = subprocess.run(
        [
            sys.executable,
            "-X",
            "importtime",
            "-c",
            "from headrace.worker.cli.commands import app; app(['mirror', '--help'])",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "verify" in said.stdout
    assert "confluent_kafka" not in said.stderr
    assert "pyarrow" not in said.stderr
