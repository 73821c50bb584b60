"""The alert rules and dashboards of docs/monitoring, as Prometheus' own tool reads them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.debian_packages import installed

FOLDER: Final = Path(__file__).parents[2] / "docs" / "monitoring"
ALERTS: Final = FOLDER / "alerts.yml"
DASHBOARDS: Final = sorted(FOLDER.glob("*.json"))
_NAME: Final = re.compile(r"\b(?:kafka|headrace|jvm|process)_\w+")

C: Final = 'connector="c"'
STATUS: Final = "kafka_connect_connector_status"
LAG: Final = f"kafka_connect_sink_task_sink_record_lag{{{C}}}"
SENT: Final = f"kafka_connect_sink_task_sink_record_send_total{{{C}}}"
FAILS: Final = {
    "ConnectNoWorker": {"up": "1x200"},
    "ConnectFewerWorkers": {'kafka_connect_worker_task_count{instance="b"}': "1x90 _x110"},
    "ConnectConnectorFailed": {f'{STATUS}{{{C}, status="failed"}}': "1x200"},
    "ConnectTaskFailed": {f"kafka_connect_worker_connector_failed_task_count{{{C}}}": "2x200"},
    "ConnectTaskStuck": {f'kafka_connect_connector_task_unhealthy{{{C}, task="0", reason="batch"}}': "1x200"},
    "ConnectSinkLate": {f"headrace_sink_task_lag_seconds{{{C}}}": "601+60x200"},
    "ConnectSinkStands": {LAG: "5x200", SENT: "100x200"},
    "ConnectRecordsFail": {f"kafka_connect_task_error_total_record_errors{{{C}}}": "0x110 3x90"},
    "ConnectDeadLettersNotSent": {
        f"kafka_connect_task_error_deadletterqueue_produce_failures{{{C}}}": "0x110 1x90",
    },
    "ConnectCommitsFail": {f"kafka_connect_connector_task_offset_commit_failure_percentage{{{C}}}": "80x200"},
    "ConnectRebalancing": {"kafka_connect_worker_rebalance_rebalancing": "1x200"},
    "ConnectRebalancesOften": {"kafka_connect_worker_rebalance_completed_rebalances_total": "0+1x200"},
}
"""The series, by minutes, with which each alert fires after two hours."""
WORKER: Final = {'kafka_connect_worker_task_count{instance="a"}': "3x200"}
FINE: Final = {
    f'{STATUS}{{{C}, status="running"}}': "1x200",
    f"kafka_connect_worker_connector_failed_task_count{{{C}}}": "0x200",
    f"headrace_sink_task_lag_seconds{{{C}}}": "2x200",
    f'{STATUS}{{connector="paused", status="paused"}}': "1x200",
    'headrace_sink_task_lag_seconds{connector="paused"}': "0+60x200",
    'kafka_connect_sink_task_sink_record_lag{connector="paused"}': "9x200",
    'kafka_connect_sink_task_sink_record_send_total{connector="paused"}': "7x200",
    LAG: "5x200",
    SENT: "0+60x200",
    f"kafka_connect_task_error_total_record_errors{{{C}}}": "3x200",
    f"kafka_connect_task_error_deadletterqueue_produce_failures{{{C}}}": "1x200",
    f"kafka_connect_connector_task_offset_commit_failure_percentage{{{C}}}": "0x200",
    "kafka_connect_worker_rebalance_rebalancing": "0x200",
    "kafka_connect_worker_rebalance_completed_rebalances_total": "0x60 5x140",
}


@pytest.fixture(scope="module")
def promtool() -> str:
    return installed(["promtool"], ["prometheus"])


def run(promtool: str, *arguments: object) -> None:
    done = subprocess.run([promtool, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def alerts() -> list[str]:
    return re.findall(r"^ *- alert: (\w+)$", ALERTS.read_text(encoding="utf-8"), re.MULTILINE)


def queries(path: Path) -> Iterator[str]:
    """A dashboard's queries, with what Grafana puts for its variables."""
    board = json.loads(path.read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield target["expr"].replace("$connector", ".*").replace("$__rate_interval", "1m")


def names_read() -> set[str]:
    """The metrics that the dashboards and the alerts read."""
    texts = [query for path in DASHBOARDS for query in queries(path)]
    texts += re.findall(r"expr:((?:.*\n(?: {10}.*\n)*))", ALERTS.read_text(encoding="utf-8"))
    return {name for text in texts for name in _NAME.findall(text)}


def unit_test(series: dict[str, str], alert: str, fires: bool) -> dict[str, Any]:
    """A case for `promtool test rules`: what is said of an alert's firing after two hours."""
    names = f'ALERTS{{alertname="{alert}", alertstate="firing"}}'
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f"count({names}) or vector(0)",
                "eval_time": "2h",
                "exp_samples": [{"labels": "{}", "value": int(fires)}],
            }
        ],
    }


def test_prometheus_takes_the_rules(promtool: str) -> None:
    run(promtool, "check", "rules", ALERTS)


def test_each_alert_fires_and_none_does_if_all_is_well(promtool: str, tmp_path: Path) -> None:
    assert set(alerts()) == set(FAILS)
    cases = [
        unit_test(series if alert == "ConnectNoWorker" else {**WORKER, **series}, alert, fires=True)
        for alert, series in FAILS.items()
    ]
    cases += [unit_test({**WORKER, **FINE}, alert, fires=False) for alert in FAILS]
    tests = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": cases}
    (tmp_path / "tests.yml").write_text(json.dumps(tests), encoding="utf-8")
    run(promtool, "test", "rules", tmp_path / "tests.yml")


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_prometheus_takes_each_query_of_a_dashboard(promtool: str, tmp_path: Path, path: Path) -> None:
    found = list(queries(path))
    assert len(found) > 10
    rules = [{"record": f"query_{number}", "expr": query} for number, query in enumerate(found)]
    file = tmp_path / "rules.yml"
    file.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}), encoding="utf-8")
    run(promtool, "check", "rules", "--lint=none", file)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_the_panels_of_a_dashboard_lie_side_by_side(path: Path) -> None:
    panels = json.loads(path.read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken
        taken |= cells
