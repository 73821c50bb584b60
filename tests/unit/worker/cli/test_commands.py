"""Arguments, usage and exit codes of the commands."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.worker.cli import commands


def test_help_waits_for_neither_spark_nor_the_web_server() -> None:
    code = (
        "import sys; sys.argv = ['headrace', '--help']\n"
        "from headrace.worker.cli import commands\n"
        "try: commands.main()\n"
        "except SystemExit as end: print('exit', end.code)\n"
        "heavy = {'pyspark', 'py4j', 'fastapi', 'uvicorn', 'pydantic', 'confluent_kafka', 'pyarrow', 'pandas'}\n"
        "print('loaded', sorted(heavy & set(sys.modules)))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "quickstart" in out
    assert out.endswith("exit 0\nloaded []\n")


@pytest.mark.parametrize("setting", ["x", "=3", ""])
def test_a_setting_without_key_and_value_is_wrong_use(setting: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(commands.app, ["kafka", "start", "--data-dir", str(tmp_path), "--set", setting])
    assert result.exit_code == 2
    assert "key=value" in result.output


def test_a_setting_that_headrace_owns_is_wrong_use(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        commands.app, ["kafka", "start", "--data-dir", str(tmp_path), "--set", "log.dirs=/elsewhere"]
    )
    assert result.exit_code == 2
    assert "log.dirs" in result.output


def test_status_and_stop_without_a_broker(tmp_path: Path) -> None:
    status = CliRunner().invoke(commands.app, ["kafka", "status", "--data-dir", str(tmp_path)])
    assert status.exit_code == 1
    assert "headrace kafka start" in status.output
    stop = CliRunner().invoke(commands.app, ["kafka", "stop", "--data-dir", str(tmp_path)])
    assert stop.exit_code == 0


def test_an_unknown_option_is_wrong_use() -> None:
    assert CliRunner().invoke(commands.app, ["doctor", "--nonsense"]).exit_code == 2
