"""Many small connectors as a picture: processor time and p99 over the number of sinks, every side beside the others.

Every panel has the same scales, both axes by powers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from tests.bench import latency
from tests.bench.context import Measure
from tests.bench.report import DEFAULT, HEADRACE, TUNED, Outcome, figure
from tests.drawing import document, text

COUNTS: Final = (1, 20, 100, 500)
RATES: Final = (0, 5, 50)
"""Records per second of each sink."""


def measure_of(count: int, rate: int) -> str:
    """The name of the measure of one point."""
    return "latency-1" if (count, rate) == (1, 50) else f"latency-{count}x{rate}"


POINTS: Final[Mapping[str, Measure]] = {
    measure_of(count, rate): partial(latency.sinks, count=count, rate=rate) for rate in RATES for count in COUNTS
}
"""The measures of the picture."""


class Line(NamedTuple):
    """The looks of a side's line."""

    side: str
    label: str
    stroke: str
    dash: str


class Scale(NamedTuple):
    """The range that the panels of a row show, by powers of ten."""

    key: str
    title: str
    low: float
    high: float
    ticks: Sequence[float]


LINES: Final = (
    Line(DEFAULT, "Apache Connect", "#7a7a7a", "5 3"),
    Line(TUNED, "Apache Connect, tuned", "#c77700", "2 3"),
    Line(HEADRACE, "Headrace", "#0a62c4", ""),
)
ROWS: Final = (
    Scale("cpu_pct", "% of a core", 0.5, 200, (1, 10, 100)),
    Scale("p99_ms", "p99, ms", 1, 100_000, (1, 10, 100, 1_000, 10_000, 100_000)),
)
LEFT, TOP, WIDTH, HEIGHT, ACROSS, DOWN = 52, 62, 214, 180, 48, 58
TOTAL: Final = (LEFT + len(RATES) * (WIDTH + ACROSS), TOP + len(ROWS) * (HEIGHT + DOWN) + 12)


def missing(outcomes: Iterable[Outcome]) -> list[str]:
    """The points of the picture that no run was made of."""
    measured = {outcome.measure for outcome in outcomes}
    return [name for name in POINTS if name not in measured]


def svg(outcomes: Sequence[Outcome], note: str) -> str:
    """The picture of what was measured; a point without figures is left out."""
    parts = [*_legend({outcome.side for outcome in outcomes})]
    for column, rate in enumerate(RATES):
        for row, scale in enumerate(ROWS):
            if rate or scale.key == "cpu_pct":  # without records there is nothing to be late
                parts += _panel(outcomes, rate, scale, LEFT + column * (WIDTH + ACROSS), TOP + row * (HEIGHT + DOWN))
    parts.append(text(LEFT, TOTAL[1] - 10, note, fill="#555555"))
    return document(*TOTAL, parts)


def _legend(sides: Collection[str]) -> Iterator[str]:
    for number, line in enumerate(line for line in LINES if line.side in sides):
        x = LEFT + 190 * number
        yield _stroke([(x, 20), (x + 30, 20)], line)
        yield text(x + 36, 24, line.label)


def _panel(outcomes: Sequence[Outcome], rate: int, scale: Scale, x: int, y: int) -> Iterator[str]:
    """One rate and one figure: frame, ticks, and the lines of the sides."""
    yield f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="none" stroke="#bbbbbb"/>'
    what = "nothing comes" if rate == 0 else f"{rate} records/s each"
    yield text(x + WIDTH / 2, y - 7, f"{scale.title}, {what}", anchor="middle", weight="bold")
    for tick in scale.ticks:
        level = _height(tick, scale, y)
        yield f'<line x1="{x}" x2="{x + WIDTH}" y1="{level:.1f}" y2="{level:.1f}" stroke="#e4e4e4"/>'
        yield text(x - 5, level + 4, f"{tick:g}", anchor="end")
    for count in COUNTS:
        yield text(_across(count, x), y + HEIGHT + 14, f"{count}", anchor="middle")
    yield text(x + WIDTH / 2, y + HEIGHT + 26, "sinks", anchor="middle", fill="#555555")
    for line in LINES:
        measured = ((count, figure(outcomes, measure_of(count, rate), line.side, scale.key)) for count in COUNTS)
        points = [
            (_across(count, x), _height(found.median, scale, y)) for count, found in measured if found is not None
        ]
        if points:
            yield _stroke(points, line)
            yield from (
                f'<circle cx="{at:.1f}" cy="{level:.1f}" r="2.6" fill="{line.stroke}"/>' for at, level in points
            )


def _across(count: int, x: int) -> float:
    return x + 14 + (WIDTH - 28) * math.log(count) / math.log(COUNTS[-1])


def _height(value: float, scale: Scale, y: int) -> float:
    within = min(max(value, scale.low), scale.high)
    return y + HEIGHT * (1 - math.log(within / scale.low) / math.log(scale.high / scale.low))


def _stroke(points: Iterable[tuple[float, float]], line: Line) -> str:
    at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{at}" fill="none" stroke="{line.stroke}" stroke-width="2" stroke-dasharray="{line.dash}"/>'
    )
