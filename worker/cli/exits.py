"""The end of a command that failed: the reason on standard error, and an exit code."""

from __future__ import annotations

from typing import NoReturn

import typer


def fail(code: int, message: str) -> NoReturn:
    """End the command; codes: 1 runtime, 2 wrong use or config, 3 environment."""
    typer.echo(f"headrace: {message}", err=True)
    raise typer.Exit(code)
