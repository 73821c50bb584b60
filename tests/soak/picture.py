"""A run as a picture: an SVG with a panel for each thing that was measured.

A dotted line stands where a worker was killed, a broken one where all were restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tests.drawing import document, text

Sample = Mapping[str, Any]

COLORS: Final = ("#0a62c4", "#c77700", "#2a8c4a", "#8a3fb0", "#b02a3f", "#5a5a5a")
LEFT, TOP, WIDTH, HEIGHT, ACROSS, DOWN = 56, 58, 380, 120, 70, 52
COLUMNS: Final = 2
MOST_POINTS: Final = 400


class Panel(NamedTuple):
    """A title and lines by name, a value for each sample; None leaves a gap."""

    title: str
    lines: Mapping[str, Callable[[Sample], float | None]]


def panels(samples: Sequence[Sample]) -> list[Panel]:
    """All panels of a picture."""
    workers = list(samples[0]["workers"])

    def each(part: str, key: str) -> dict[str, Callable[[Sample], float | None]]:
        return {worker: lambda one, w=worker: one["workers"][w][part][key] or None for worker in workers}  # type: ignore[misc]

    return [
        Panel("memory of the worker, MB", each("worker", "mb")),
        Panel("memory of Spark's driver, MB", each("spark", "mb")),
        Panel("threads of the worker", each("worker", "threads")),
        Panel("threads of Spark's driver", each("spark", "threads")),
        Panel("descriptors of the worker", each("worker", "handles")),
        Panel("descriptors of Spark's driver", each("spark", "handles")),
        Panel("age of the oldest line under way, s", {"": lambda one: one["late_s"]}),
        Panel("GET /connectors?expand=status, ms", {w: lambda one, w=w: one["rest_ms"].get(w) for w in workers}),  # type: ignore[misc]
        Panel("connectors and tasks that are RUNNING", {"": lambda one: one["states"].get("RUNNING", 0)}),
        Panel("internal topics, MB", {t: lambda one, t=t: one["topics_mb"][t] for t in samples[0]["topics_mb"]}),  # type: ignore[misc]
    ]


def svg(samples: Sequence[Sample], events: Iterable[Mapping[str, Any]], note: str) -> str:
    """Draw all panels over one time."""
    shown, marks = panels(samples), list(events)
    rows = -(-len(shown) // COLUMNS)
    size = LEFT + COLUMNS * (WIDTH + ACROSS) - 30, TOP + rows * (HEIGHT + DOWN)
    parts = [text(LEFT, 20, note)]
    for number, panel in enumerate(shown):
        at = LEFT + number % COLUMNS * (WIDTH + ACROSS), TOP + number // COLUMNS * (HEIGHT + DOWN)
        parts += _panel(panel, samples, marks, *at)
    return document(*size, parts)


def _panel(
    panel: Panel, samples: Sequence[Sample], events: Sequence[Mapping[str, Any]], x: int, y: int
) -> Iterator[str]:
    end_s = samples[-1]["at_s"] or 1.0
    drawn = {name: _thinned([(one["at_s"], value(one)) for one in samples]) for name, value in panel.lines.items()}
    most = rounded_up(max((v for points in drawn.values() for _, v in points if v is not None), default=1.0))
    yield f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbbbbb"/>'
    yield text(x, y - 7, panel.title, weight="bold")
    for share in (0.0, 0.5, 1.0):
        level = y + HEIGHT * (1 - share)
        yield f'<line x1="{x}" x2="{x + WIDTH}" y1="{level:.1f}" y2="{level:.1f}" stroke="#e4e4e4"/>'
        yield text(x - 5, level + 4, f"{most * share:,g}", anchor="end")
        yield text(x + WIDTH * share, y + HEIGHT + 14, f"{end_s / 60 * share:.0f} min", anchor="middle")
    for event in events:
        at, dash = x + WIDTH * event["at_s"] / end_s, "1 3" if event["what"].startswith("kill") else "5 3"
        upright = f'x1="{at:.1f}" x2="{at:.1f}" y1="{y}" y2="{y + HEIGHT}"'
        yield f'<line {upright} stroke="#999999" stroke-dasharray="{dash}"/>'
    for number, (name, points) in enumerate(drawn.items()):
        color = COLORS[number % len(COLORS)]
        yield text(x + WIDTH - 52 * (len(drawn) - number) + 8, y - 7, name, fill=color)
        for run in _unbroken(points):
            path = " ".join(f"{x + WIDTH * at / end_s:.1f},{y + HEIGHT * (1 - value / most):.1f}" for at, value in run)
            yield f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.3"/>'


def rounded_up(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, …"""
    scale = 1.0
    while scale * 10 < value:
        scale *= 10
    return next((step * scale for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * scale >= value), 10 * scale)


def _thinned(points: Sequence[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    """The highest of each few neighbours, so that the picture stays small and shows each peak."""
    width = -(-len(points) // MOST_POINTS)
    groups = [points[n : n + width] for n in range(0, len(points), width)]
    return [max(group, key=lambda one: -1.0 if one[1] is None else one[1]) for group in groups]


def _unbroken(points: Iterable[tuple[float, float | None]]) -> Iterator[list[tuple[float, float]]]:
    run: list[tuple[float, float]] = []
    for at, value in points:
        if value is not None:
            run.append((at, value))
        elif run:
            yield run
            run = []
    if run:
        yield run
