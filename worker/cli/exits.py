"""How a command ends that cannot do what was asked: with the reason on standard error, and an exit code."""

from __future__ import annotations

from typing import NoReturn

import typer


def fail(code: int, message: str) -> NoReturn:
    """1 runtime, 2 wrong use or config, 3 environment."""
    typer.echo(f"headrace: {message}", err=True)
    raise typer.Exit(code)
