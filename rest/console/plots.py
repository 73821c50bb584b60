"""Plots as SVG, made here: no script, no style, and a sentence for who does not see them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

_WIDTH: Final = 240
_HEIGHT: Final = 48
_SCALES: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def plot(label: str, values: Sequence[float | None], minutes: int, unit: str = "") -> str:
    """The plot of a series, oldest value first; None: no value. Shape: markup that is safe."""
    from markupsafe import Markup, escape

    known = [value for value in values if value is not None]
    now = values[-1] if values else None
    most = max(known, default=0.0)
    told = (
        f"{label}: {short(now)}{unit} now, at most {short(most)}{unit} in {minutes} minutes"
        if known
        else (f"{label}: nothing known")
    )
    lines = "".join(f'<polyline points="{points}"/>' for points in _lines(values, most or 1.0))
    return Markup(
        f'<figure class="plot"><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(told)}" '
        f'preserveAspectRatio="none"><path class="axis" d="M0 {_HEIGHT - 0.5}H{_WIDTH}"/>{lines}</svg>'
        f"<figcaption><b>{escape(label)}</b> {short(now)}{escape(unit)} "
        f"<small>most {short(most)}{escape(unit)}</small></figcaption></figure>"
    )


def short(value: float | None) -> str:
    """A number in a few characters, such as 1.2k; a dash for none."""
    if value is None:
        return "–"
    for scale, letter in _SCALES:
        if abs(value) >= scale:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.3g}"


def _lines(values: Sequence[float | None], most: float) -> Iterator[str]:
    """The points of each piece without a gap."""
    step = _WIDTH / max(1, len(values) - 1)
    piece: list[str] = []
    for number, value in enumerate([*values, None]):
        if value is not None:
            piece.append(f"{number * step:.1f},{(_HEIGHT - 2) * (1 - max(0.0, value) / most) + 1:.1f}")
        elif piece:
            yield " ".join(piece if len(piece) > 1 else piece * 2)
            piece = []
