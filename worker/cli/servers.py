"""Start, stop and status of an embedded server: the common part of `headrace kafka` and `headrace registry`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import typer

from headrace.plugins.interop.jvm.jars import Unavailable
from headrace.worker.cli.exits import fail
from headrace.worker.embedded.server_process import ServerProcess, run


def start(
    kind: type[ServerProcess],
    data_dir: Path | None,
    port: int | None,
    daemon: bool,
    make: Callable[[Path], ServerProcess],
) -> None:
    """Start the server that `make` builds on the data folder; if one already runs there, say so."""
    folder = (data_dir or kind.default_data_dir()).absolute()
    found = kind.running_on(folder)
    if found is not None:
        typer.echo(f"already running: {kind.describe(found, folder)}")
        if port not in (None, found.port):
            fail(2, f"port {port} was asked for; `headrace {kind.home} stop` first, or name another --data-dir")
        return
    try:
        code = run(make(folder), typer.echo, foreground=not daemon)
    except ValueError as error:
        fail(2, str(error))
    except (Unavailable, OSError) as error:
        fail(3, str(error))
    raise typer.Exit(code)


def stop(kind: type[ServerProcess], data_dir: Path | None) -> None:
    """Stop the server that runs on the data folder, and wait until it has ended."""
    folder = (data_dir or kind.default_data_dir()).absolute()
    try:
        found = kind.stop_on(folder)
    except Unavailable as error:
        fail(1, str(error))
    typer.echo(f"stopped: {kind.describe(found, folder)}" if found else f"no {kind.what} runs on {folder}")


def status(kind: type[ServerProcess], data_dir: Path | None, answer: Callable[[int], str | None]) -> None:
    """Say if the server of the data folder runs and answers; exit code 1 if it does not.

    `answer` asks the server at a port, and is None without an answer.
    """
    folder = (data_dir or kind.default_data_dir()).absolute()
    found = kind.running_on(folder)
    if found is None:
        typer.echo(f"no {kind.what} runs on {folder}; `headrace {kind.home} start` gives one")
        raise typer.Exit(1)
    state = answer(found.port)
    typer.echo(
        f"{kind.describe(found, folder)}: {state or 'a process is there but does not answer; see logs/server.log'}"
    )
    raise typer.Exit(0 if state else 1)
