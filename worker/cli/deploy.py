"""The command line of `headrace apply`, `headrace diff` and `headrace export`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.worker.cli.exits import fail, failing_with_reason
from headrace.worker.cli.login import LOCAL, CaCert, Cert, Login, Rest, Token, User

if TYPE_CHECKING:
    from headrace.worker.cli.cluster_rest import ClusterRest

Folder = Annotated[Path, typer.Argument(help="A folder with files of connectors, or one file.")]
Prune = Annotated[bool, typer.Option("--prune", help="Delete the connectors that no file names.")]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="End with 1 if anything differs.")]

_WOULD: Final = {"create": "would be created", "update": "would be updated", "delete": "would be deleted"}
_IS: Final = {"create": "is not in the cluster", "update": "differs", "delete": "has no file"}


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (apply, diff, export):
        app.command()(command)


def apply(
    folder: Folder,
    plan: Annotated[bool, typer.Option("--plan", help="Only show what would change.")] = False,
    prune: Prune = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    exit_code: ExitCode = False,
    rest: Rest = LOCAL,
    user: User = None,
    token: Token = None,
    cacert: CaCert = None,
    cert: Cert = None,
) -> None:
    """Create and update the connectors that files describe, after showing what differs; exit code 1 if one fails.

    A file with initial_state also brings its connector to that state.
    """
    from rich.console import Console

    from headrace.worker.cli import apply as deploying

    with _cluster(Login(rest, user, token, cacert, cert)) as cluster:
        steps = deploying.steps_to(folder, cluster, prune)
        deploying.show(steps, cluster, Console(highlight=False), _WOULD)
        if wrong := deploying.wrong(steps, cluster):
            fail(2, "\n".join(["the worker finds these configs wrong, and nothing was changed:", *wrong]))
        if plan or not steps:
            raise typer.Exit(1 if exit_code and steps else 0)
        if not yes:
            if not sys.stdin.isatty():
                fail(2, "nothing was changed: write --yes, as nobody can be asked here")
            typer.confirm("Change the cluster like this?", abort=True)
        if failed := deploying.carry_out(steps, cluster, typer.echo):
            fail(1, "\n".join(failed))


def diff(
    folder: Folder,
    exit_code: ExitCode = False,
    rest: Rest = LOCAL,
    user: User = None,
    token: Token = None,
    cacert: CaCert = None,
    cert: Cert = None,
) -> None:
    """Show how the connectors of a cluster differ from the files that describe them."""
    from rich.console import Console

    from headrace.worker.cli import apply as deploying

    with _cluster(Login(rest, user, token, cacert, cert)) as cluster:
        steps = deploying.steps_to(folder, cluster, prune=True)
        deploying.show(steps, cluster, Console(highlight=False), _IS)
        raise typer.Exit(1 if exit_code and steps else 0)


def export(
    folder: Annotated[Path, typer.Argument(help="The folder to write to.")],
    rest: Rest = LOCAL,
    user: User = None,
    token: Token = None,
    cacert: CaCert = None,
    cert: Cert = None,
) -> None:
    """Write a file for each connector of a cluster, as `headrace apply` reads them."""
    from headrace.worker.cli import apply as deploying

    with _cluster(Login(rest, user, token, cacert, cert)) as cluster:
        deploying.export(folder, cluster, typer.echo)


@contextlib.contextmanager
def _cluster(login: Login) -> Iterator[ClusterRest]:
    """Yield the cluster; errors inside end the command with their text."""
    from headrace.worker.cli.cluster_rest import ClusterRest
    from headrace.worker.cli.worker_rest import WorkerRest

    try:
        with failing_with_reason(), WorkerRest(login) as rest:
            yield ClusterRest(rest)
    except OSError as error:
        fail(3, f"{error.filename}: {error.strerror}")
