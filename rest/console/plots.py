"""Plots as SVG, made here: no script, no style, and a sentence for who does not see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_WIDTH: Final = 240
_HEIGHT: Final = 56
_TOP: Final = 3
"""Space for half of a line, above the greatest value."""
_LEAST_S: Final = 600
"""The shortest time that plots show."""
_SCALES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def plots(answer: Mapping[str, Any], what: Sequence[tuple[str, str, str]]) -> str:
    """The plots of a `/series` answer, side by side; `what`: name, label and unit. Shape: markup that is safe.

    They span the part of the hour that something is known about. A series has none if nothing is known about it.
    """
    from markupsafe import Markup

    step_s, every = answer["step_s"], answer["series"]
    wanted = [(label, every[name], unit) for name, label, unit in what if name in every]
    firsts = [next((at for at, value in enumerate(values) if value is not None), None) for _, values, _ in wanted]
    begins = [at for at in firsts if at is not None]
    if not begins:
        return Markup('<p class="empty">Nothing has been measured yet.</p>')
    steps = max(len(wanted[0][1]) - min(begins), _LEAST_S // step_s)
    shown = [one for one, first in zip(wanted, firsts, strict=True) if first is not None]
    made = [plot(label, values[-steps:], step_s, unit) for label, values, unit in shown]
    return Markup('<div class="plots">{}</div>').format(Markup("").join(made))


def plot(label: str, values: Sequence[float | None], step_s: float, unit: str = "") -> str:
    """The plot of a series, oldest value first; None: no value. Shape: markup that is safe."""
    from markupsafe import Markup, escape

    known = [value for value in values if value is not None]
    most, now = max(known, default=0.0), amount(values[-1], unit)
    minutes = round(len(values) * step_s / 60)
    told = f"{label}: {now} now, at most {amount(most, unit)} in {minutes} minutes"
    lines = "".join(_piece(points) for points in _pieces(values, most or 1.0))
    return Markup(
        f'<figure class="plot"><figcaption><b>{escape(label)}</b><span>{escape(now)}</span>'
        f"<small>most {escape(amount(most, unit))}</small></figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(told)}" preserveAspectRatio="none">'
        f'<path class="axis" d="M0 {_HEIGHT - 0.5}H{_WIDTH}"/>{lines}</svg>'
        f'<p class="times"><span>last {minutes} min</span><span>now</span></p></figure>'
    )


def bar(value: float | None, most: float) -> str:
    """A bar as long as the value's part of the greatest. Shape: markup that is safe."""
    from markupsafe import Markup

    width = round(100 * max(0.0, value or 0.0) / most) if most > 0 else 0
    return Markup(f'<svg class="bar" viewBox="0 0 100 4" aria-hidden="true"><path d="M0 2H{width}"/></svg>')


def amount(value: float | None, unit: str) -> str:
    """A value with its unit in a few characters, such as 1.2k records, 3.4 MB/s or 2 min; a dash for none."""
    if value is None:
        return "–"
    if unit in ("s", "ms"):
        return _time(value / 1000 if unit == "ms" else value)
    if unit == "B/s":
        number, letter = _scaled(value)
        return f"{number} {letter}{unit}"
    return f"{short(value)}{unit}"


def short(value: float | None) -> str:
    """A number in a few characters, such as 1.2k; a dash for none."""
    return "–" if value is None else "".join(_scaled(value))


def _scaled(value: float) -> tuple[str, str]:
    """A number of three digits, and the letter of its scale."""
    rounded = float(f"{value:.3g}")
    for scale, letter in _SCALES:
        if abs(rounded) >= scale:
            return f"{rounded / scale:.3g}", letter
    return f"{rounded:.3g}", ""


def _time(seconds: float) -> str:
    rounded = float(f"{seconds:.2g}")
    if rounded < 1:
        return f"{rounded * 1000:.0f} ms" if rounded else "0 s"
    scale, name = next((scale, name) for scale, name in _TIMES if rounded >= scale)
    number = seconds / scale
    return f"{number:.0f} {name}" if number >= 10 else f"{number:.2g} {name}"


def _pieces(values: Sequence[float | None], most: float) -> Iterator[list[tuple[float, float]]]:
    """The points of each piece without a gap."""
    step = _WIDTH / max(1, len(values) - 1)
    piece: list[tuple[float, float]] = []
    for number, value in enumerate([*values, None]):
        if value is not None:
            piece.append((number * step, _HEIGHT - (_HEIGHT - _TOP) * max(0.0, value) / most))
        elif piece:
            yield piece if len(piece) > 1 else piece * 2
            piece = []


def _piece(points: Sequence[tuple[float, float]]) -> str:
    """A line with the area below it."""
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    (first, _), (last, _) = points[0], points[-1]
    return f'<polygon points="{first:.1f},{_HEIGHT} {line} {last:.1f},{_HEIGHT}"/><polyline points="{line}"/>'
