"""`headrace top`: the connectors of a worker's cluster in a table that is drawn anew, from its REST API."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.worker.cli.exits import CommandFailed
from headrace.worker.cli.login import Login
from headrace.worker.cli.worker_rest import WorkerRest
from headrace.worker.kafka.record_text import printable

_ANSWER_S: Final = 15.0
_FIGURES: Final = ("records_per_s", "lag_records", "lag_s", "errors")
SORTS: Final = {
    "state": lambda row: (row["state"] == "RUNNING" and row["tasks"].keys() <= {"RUNNING"}, row["name"]),
    "name": lambda row: row["name"],
    "records": lambda row: -(row["records_per_s"] or 0.0),
    "lag": lambda row: (-(row["lag_s"] or 0.0), -(row["lag_records"] or 0.0)),
    "errors": lambda row: -(row["errors"] or 0.0),
}
"""The keys of an order, by its name: what needs a look comes first."""


class Watched:
    """The connectors of one worker's cluster."""

    def __init__(self, login: Login) -> None:
        """Errors: CommandFailed for a login that cannot be used."""
        self._rest = WorkerRest(login, _ANSWER_S)

    def rows(self, sort: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """Return a row for each connector, and the workers without figures with the reason. Errors: CommandFailed."""
        found = self._rest.asked("GET", "/connectors", query={"expand": "status"})
        series = self._rest.asked("GET", "/series", query={"minutes": "1"})
        with self._rest.understood():
            made = [_row(name, one["status"], series["connectors"].get(name, {})) for name, one in found.items()]
            return sorted(made, key=SORTS[sort]), dict(series["skipped"])

    def close(self) -> None:
        """End the connections."""
        self._rest.close()


def watch(watched: Watched, sort: str, interval_s: float) -> None:
    """Draw the table until Ctrl-C; while no worker answers, it says so."""
    with closing(watched), Live(auto_refresh=False, screen=sys.stdout.isatty()) as live:
        try:
            while True:
                try:
                    shown: Any = _table(*watched.rows(sort))
                except CommandFailed as error:
                    shown = Text(printable(str(error)))
                live.update(shown, refresh=True)
                time.sleep(interval_s)
        except KeyboardInterrupt:
            return


def once(watched: Watched, sort: str, as_json: bool) -> None:
    """Print the connectors once. Errors: CommandFailed."""
    with closing(watched):
        rows, skipped = watched.rows(sort)
    if as_json:
        sys.stdout.write(json.dumps({"connectors": rows, "skipped": skipped}, ensure_ascii=False) + "\n")
    else:
        Console().print(_table(rows, skipped))


def _row(name: str, status: Mapping[str, Any], figures: Mapping[str, Any]) -> dict[str, Any]:
    parts = (status["connector"], *status["tasks"])
    return {
        "name": name,
        "type": status["type"],
        "state": status["connector"]["state"],
        "tasks": dict(Counter(task["state"] for task in status["tasks"])),
        "workers": sorted({part["worker_id"] for part in parts}),
        **{figure: figures.get(figure) for figure in _FIGURES},
    }


def _table(rows: Iterable[Mapping[str, Any]], skipped: Mapping[str, str]) -> Group:
    table = Table()
    for title in ("connector", "type", "state", "tasks"):
        table.add_column(title, overflow="fold")
    for title in ("records/s", "lag", "lag s", "errors"):
        table.add_column(title, justify="right")
    table.add_column("workers", overflow="fold")
    for row in rows:
        tasks = ", ".join(f"{count} {state}" for state, count in sorted(row["tasks"].items())) or "none"
        figures = (_number(row[figure]) for figure in _FIGURES)
        cells = (row["name"], row["type"], row["state"], tasks, *figures, ", ".join(row["workers"]))
        is_well = row["state"] == "RUNNING" and row["tasks"].keys() <= {"RUNNING"}
        table.add_row(*(Text(printable(cell)) for cell in cells), style=None if is_well else "bold red")
    left_out = [Text(printable(f"{url} tells no figures: {why}")) for url, why in skipped.items()]
    return Group(table, *left_out)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"
