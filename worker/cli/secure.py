"""The command line of `headrace secure`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.worker.cli.exits import fail

secure = typer.Typer(help="A worker with https, logins, rights and an audit log.", no_args_is_help=True)


@secure.callback()
def _group() -> None:
    """Keeps `init` a command of its own: Typer would merge a single one into the group."""


@secure.command("init")
def secure_init(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    bootstrap_servers: Annotated[str, typer.Option(help="Kafka's brokers, separated by commas.")] = "127.0.0.1:9092",
    host: Annotated[
        list[str] | None, typer.Option("--host", help="A further name or address of the server's certificate.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The loopback port of the REST API.")] = 8443,
    admin_port: Annotated[int, typer.Option(min=1, max=65535, help="The loopback port of /admin.")] = 8444,
) -> None:
    """Write certificates for development, users with random passwords, rights and a worker's properties."""
    from headrace.worker.cli import secure_init as init

    try:
        made = init.write(folder, bootstrap_servers, host or (), port, admin_port)
    except init.InitError as error:
        fail(2, str(error))
    for line in made.told():
        typer.echo(line)
