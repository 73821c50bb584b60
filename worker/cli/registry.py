"""The command line of `headrace registry`; each command imports its modules when it runs, as in `commands`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

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
    from headrace.worker.cli import servers
    from headrace.worker.embedded.registry_server import DEFAULT_PORT, Registry

    def make(folder: Path) -> Registry:
        return Registry(folder, port or DEFAULT_PORT, detached=daemon)

    servers.start(Registry, data_dir, port, daemon, make)


@registry.command("stop")
def registry_stop(data_dir: RegistryDir = None) -> None:
    """Stop the schema registry that runs on the data folder, and wait until it has ended."""
    from headrace.worker.cli import servers
    from headrace.worker.embedded.registry_server import Registry

    servers.stop(Registry, data_dir)


@registry.command("status")
def registry_status(data_dir: RegistryDir = None) -> None:
    """Say whether the schema registry of the data folder runs and answers; exit code 1 when it does not."""
    from headrace.worker.cli import servers
    from headrace.worker.embedded.registry_server import Registry, answers

    servers.status(Registry, data_dir, lambda port: "running" if answers(port) else None)
