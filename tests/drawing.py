"""Pictures as SVG, by hand: text in git that needs no library."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def document(width: float, height: float, parts: Iterable[str]) -> str:
    """The parts on a white page."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
    page = [f'{head}font-size="11">', f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    return "\n".join([*page, *parts, "</svg>", ""])


def text(x: float, y: float, said: str, anchor: str = "start", weight: str = "normal", fill: str = "#222222") -> str:
    """A line of text at a place."""
    style = f'text-anchor="{anchor}" font-weight="{weight}" fill="{fill}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(said)}</text>'
