"""Picture and table of a run, from what lies in its folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.soak.picture import svg
from tests.soak.verdict import markdown, rows


def report(folder: Path) -> tuple[str, bool]:
    """Write picture and table; return the table, and True if all bounds hold."""
    figures: dict[str, Any] = json.loads((folder / "figures.json").read_text())
    samples = [json.loads(line) for line in (folder / "samples.jsonl").read_text().splitlines()]
    scale = figures["scale"]
    note = f"{figures['connectors']} connectors ({figures['mix']}, a mirror) on {scale['workers']} workers"
    (folder / "soak.svg").write_text(svg(samples, figures["events"], note))
    found = rows(figures, samples)
    table = markdown(found)
    (folder / "soak.md").write_text(f"{note}; `{json.dumps(scale)}`\n\n{table}\n")
    return table, all(row.holds for row in found)
