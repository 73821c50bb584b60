"""The end of a command that failed: the reason on standard error, and an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer


class CommandFailed(Exception):
    """A command cannot be done; `code` is its exit code."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def fail(code: int, message: str) -> NoReturn:
    """End the command; codes: 1 runtime, 2 wrong use or config, 3 environment."""
    typer.echo(f"headrace: {message}", err=True)
    raise typer.Exit(code)


@contextmanager
def failing_with_reason() -> Iterator[None]:
    """End the command with the text and the code of an error inside: CommandFailed, or ConfigError."""
    from headrace.config.problems import ConfigError

    try:
        yield
    except CommandFailed as error:
        fail(error.code, str(error))
    except ConfigError as error:
        fail(2, str(error))
