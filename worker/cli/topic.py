"""The command line of `headrace topic`; each command imports its modules when it runs, as in `commands`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace.worker.cli.exits import fail

topic = typer.Typer(help="Topics of a Kafka cluster.", no_args_is_help=True)

ClientFile = Annotated[
    Path | None, typer.Option("--command-config", metavar="FILE", help="Properties of Kafka's clients, as in Java.")
]
WorkerFile = Annotated[
    Path | None,
    typer.Option("--worker", metavar="FILE", help="Properties of a worker: its brokers, login and converters."),
]


@topic.command("show")
def topic_show(
    name: Annotated[str, typer.Argument(help="The topic.")],
    bootstrap_server: Annotated[
        str | None, typer.Option("--bootstrap-server", help="The brokers.  [default: 127.0.0.1:9092]")
    ] = None,
    worker_file: WorkerFile = None,
    command_config: ClientFile = None,
    last: Annotated[int | None, typer.Option(min=0, help="So many of the newest.  [default: 10]")] = None,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="earliest|OFFSET|TIME", help="Begin there; a time as 2026-11-28T09:30[Z]."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="End after so many.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="This partition alone.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Show what comes, until Ctrl-C.")] = False,
    key_converter: Annotated[str | None, typer.Option(metavar="CLASS", help="Reads keys.")] = None,
    value_converter: Annotated[str | None, typer.Option(metavar="CLASS", help="Reads values.")] = None,
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property", metavar="KEY=VALUE", help="A setting, such as value.converter.schema.registry.url=URL."
        ),
    ] = None,
    registry: Annotated[
        str | None, typer.Option(metavar="URL", help="The registry of the schemas that bytes name.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line on stdout.")] = False,
) -> None:
    """Show a topic's records with their keys, values and headers; joins no group and commits nothing.

    Without a converter, bytes that name a schema are Avro, Protobuf or JSON if there is a registry; others are JSON,
    text or hexadecimal digits. Standard error says which.
    """
    from headrace.config.problems import ConfigError
    from headrace.worker.cli import topic_records
    from headrace.worker.errors import ConnectError
    from headrace.worker.kafka.topic_reading import KafkaSilent

    if last is not None and begin is not None:
        fail(2, "--last and --from both say where to begin: name one of them")
    converters = {"key.converter": key_converter, "value.converter": value_converter}
    wanted = topic_records.Wanted(name, last, begin, limit, partition, follow, as_json)
    try:
        source = topic_records.source_of(
            worker_file, command_config, bootstrap_server, converters, properties or [], registry
        )
        topic_records.show(wanted, source)
    except KafkaSilent as error:
        fail(3, f"{error}; other brokers are named by --bootstrap-server, a login by --command-config or --worker")
    except ConnectError as error:
        fail(1, str(error))
    except (ConfigError, OSError) as error:
        fail(2, str(error))
