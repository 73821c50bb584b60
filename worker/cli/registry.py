"""The command line of `headrace registry`; what a command needs is imported when it runs, as in `commands`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.worker.cli.exits import fail

registry = typer.Typer(help="A real schema registry (Apicurio) on loopback.", no_args_is_help=True)

RegistryPort = Annotated[
    int | None, typer.Option("--port", min=1, max=65535, help="Loopback port of the registry.  [default: 8081]")
]
RegistryDir = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Folder that keeps the schemas.  [default: headrace/registry in the state folder]"),
]


@registry.command("start")
def registry_start(
    port: RegistryPort = None,
    data_dir: RegistryDir = None,
    daemon: Annotated[
        bool, typer.Option("--daemon", help="Return once it answers; `headrace registry stop` ends it.")
    ] = False,
) -> None:
    """Start a schema registry (needs Java 21); where one already runs on the data folder, say so."""
    from headrace.worker.embedded import registry_server, server_process
    from headrace.worker.machine.jars import Unavailable

    folder = (data_dir or registry_server.default_data_dir()).absolute()
    found = registry_server.running(folder)
    if found is not None:
        typer.echo(f"already running: {registry_server.describe(found, folder)}")
        if port not in (None, found.port):
            fail(2, f"port {port} was asked for; `headrace registry stop` first, or name another --data-dir")
        return
    try:
        server = registry_server.Registry(folder, port or registry_server.DEFAULT_PORT, detached=daemon)
        code = server_process.run(server, typer.echo, foreground=not daemon)
    except (Unavailable, OSError) as error:
        fail(3, str(error))
    raise typer.Exit(code)


@registry.command("stop")
def registry_stop(data_dir: RegistryDir = None) -> None:
    """Stop the schema registry that runs on the data folder, and wait until it has ended."""
    from headrace.worker.embedded import registry_server
    from headrace.worker.machine.jars import Unavailable

    folder = (data_dir or registry_server.default_data_dir()).absolute()
    try:
        found = registry_server.stop_running(folder)
    except Unavailable as error:
        fail(1, str(error))
    typer.echo(f"stopped: {registry_server.describe(found, folder)}" if found else f"no registry runs on {folder}")


@registry.command("status")
def registry_status(data_dir: RegistryDir = None) -> None:
    """Say whether the schema registry of the data folder runs and answers; exit code 1 when it does not."""
    from headrace.worker.embedded import registry_server

    folder = (data_dir or registry_server.default_data_dir()).absolute()
    found = registry_server.running(folder)
    if found is None:
        typer.echo(f"no registry runs on {folder}; `headrace registry start` gives one")
        raise typer.Exit(1)
    well = registry_server.answers(found.port)
    state = "running" if well else "a process is there but does not answer; see logs/server.log"
    typer.echo(f"{registry_server.describe(found, folder)}: {state}")
    raise typer.Exit(0 if well else 1)
