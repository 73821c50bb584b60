"""The command line of `headrace dlq`; each command imports its modules when it runs, as in `commands`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from headrace.worker.cli.exits import fail, failing_with_reason
from headrace.worker.cli.login import LOCAL, CaCert, Cert, Login, Rest, Token, User

dlq = typer.Typer(help="A connector's dead letters.", no_args_is_help=True)

Connector = Annotated[str, typer.Argument(help="The connector whose dead letters these are.")]
Bootstrap = Annotated[str, typer.Option("--bootstrap-server", help="The Kafka that the dead letters are in.")]
Letters = Annotated[str | None, typer.Option("--topic", help="The dead letter topic; then no worker is needed.")]
ClientFile = Annotated[
    Path | None, typer.Option("--command-config", metavar="FILE", help="Properties of Kafka's clients, as in Java.")
]


@dlq.command("show")
def dlq_show(
    connector: Connector,
    rest: Rest = LOCAL,
    bootstrap_server: Bootstrap = "127.0.0.1:9092",
    topic: Letters = None,
    limit: Annotated[int, typer.Option(min=1, help="So many of the newest.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line on stdout.")] = False,
    command_config: ClientFile = None,
    user: User = None,
    token: Token = None,
    cacert: CaCert = None,
    cert: Cert = None,
) -> None:
    """Print a connector's newest dead letters and what was wrong with them."""
    from headrace.worker.cli.dlq_commands import show
    from headrace.worker.cli.dlq_topic import find

    login = Login(rest, user, token, cacert, cert)
    with _failing_with_reason():
        raise typer.Exit(show(find(connector, login, bootstrap_server, topic, command_config), limit, as_json))


@dlq.command("replay")
def dlq_replay(
    connector: Connector,
    rest: Rest = LOCAL,
    bootstrap_server: Bootstrap = "127.0.0.1:9092",
    topic: Letters = None,
    to: Annotated[str | None, typer.Option(metavar="TOPIC", help="Send them here instead.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    command_config: ClientFile = None,
    user: User = None,
    token: Token = None,
    cacert: CaCert = None,
    cert: Cert = None,
) -> None:
    """Send dead letters that were not replayed yet, as they first came, to the topics they came from.

    Mend the cause first, such as the connector's converter or transforms (PUT /connectors/NAME/config): it reads them
    again with its changed config. Other readers of those topics get them again, too; where that must not be, send
    them --to another topic, and let a second connector with the changed config read that one.
    """
    from headrace.worker.cli.dlq_commands import replay
    from headrace.worker.cli.dlq_topic import find

    login = Login(rest, user, token, cacert, cert)
    with _failing_with_reason():
        letters = find(connector, login, bootstrap_server, topic, command_config)
        raise typer.Exit(replay(letters, to, limit, dry_run, typer.echo))


@contextlib.contextmanager
def _failing_with_reason() -> Iterator[None]:
    """End a `dlq` command with the text and the code of an error inside."""
    try:
        with failing_with_reason():
            yield
    except OSError as error:
        fail(2, str(error))
