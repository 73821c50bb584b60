"""The command line: `headrace …` (`connect-standalone` is `headrace.rest.commands`, which brings the REST API).

Each command imports its modules when it runs: `headrace --help` waits neither for Spark nor for the web server.
Exit codes: 0 ok, 1 runtime, 2 wrong use or config, 3 environment.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from headrace.worker.cli import deploy
from headrace.worker.cli.dlq import dlq
from headrace.worker.cli.exits import fail, failing_with_reason
from headrace.worker.cli.login import LOCAL, CaCert, Cert, Login, Rest, Token, User
from headrace.worker.cli.plugin_commands import WithPlugins
from headrace.worker.cli.plugins import plugins
from headrace.worker.cli.registry import registry
from headrace.worker.cli.secure import secure
from headrace.worker.cli.topic import topic

app = typer.Typer(
    cls=WithPlugins,
    name="headrace",
    help="Kafka Connect in Python, with Apache Spark as its engine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
kafka = typer.Typer(help="A real single-node Kafka broker on loopback.", no_args_is_help=True)
app.add_typer(kafka, name="kafka")
app.add_typer(dlq, name="dlq")
app.add_typer(plugins, name="plugins")
app.add_typer(registry, name="registry")
app.add_typer(secure, name="secure")
deploy.add_to(app)
app.add_typer(topic, name="topic")

Port = Annotated[int | None, typer.Option(min=1, max=65535, help="Loopback port of the broker.", show_default="9092")]
DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder that keeps the broker's data.", show_default="headrace/kafka in the state folder"),
]

Base = Annotated[
    Path | None, typer.Option("--properties", metavar="FILE", help="Properties that the environment is laid over.")
]


def main() -> None:
    """Run the `headrace` command."""
    app()


@kafka.command("start")
def kafka_start(
    port: Port = None,
    data_dir: DataDir = None,
    daemon: Annotated[
        bool, typer.Option("--daemon", help="Return once it answers; `headrace kafka stop` ends it.")
    ] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A server property, for this start only.")
    ] = None,
) -> None:
    """Start a broker; where one already runs on the data folder, say so."""
    from headrace.worker.cli import servers
    from headrace.worker.embedded.kafka_broker import DEFAULT_PORT, Broker

    def make(folder: Path) -> Broker:
        return Broker(folder, port or DEFAULT_PORT, settings=_pairs(settings or []), detached=daemon)

    servers.start(Broker, data_dir, port, daemon, make)


@kafka.command("stop")
def kafka_stop(data_dir: DataDir = None) -> None:
    """Stop the broker that runs on the data folder, and wait until it has ended."""
    from headrace.worker.cli import servers
    from headrace.worker.embedded.kafka_broker import Broker

    servers.stop(Broker, data_dir)


@kafka.command("status")
def kafka_status(data_dir: DataDir = None) -> None:
    """Say whether the broker of the data folder runs and answers; exit code 1 when it does not."""
    from headrace.worker.cli import servers
    from headrace.worker.embedded.kafka_broker import Broker, cluster_id

    def answer(port: int) -> str | None:
        cluster = cluster_id(f"127.0.0.1:{port}", timeout_s=5)
        return f"running, cluster {cluster}" if cluster else None

    servers.status(Broker, data_dir, answer)


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
    bootstrap_servers: Annotated[str, typer.Option(help="The broker to look for.")] = "127.0.0.1:9092",
    connector: Annotated[
        Path | None, typer.Option(help="A connector's file: look at its settings, and at what it connects to.")
    ] = None,
    worker_file: Annotated[
        Path | None,
        typer.Option(
            "--worker", help="The properties of a worker: look at its security; with --connector, it is to run that."
        ),
    ] = None,
) -> None:
    """Say what this machine has and lacks, and what to do about it; exit code 3 when something needed is missing.

    With --connector: what is wrong with the connector, and what the system that it connects to has and lacks for it.
    """
    from headrace.worker.cli import access_doctor, connector_doctor, security_doctor
    from headrace.worker.cli import doctor as checks

    if connector is None:
        of_worker = (
            [] if worker_file is None else [*security_doctor.examine(worker_file), *access_doctor.examine(worker_file)]
        )
        raise typer.Exit(checks.run(bootstrap_servers, of_worker, as_json=as_json))
    found = connector_doctor.examine(connector, worker_file)
    raise typer.Exit(checks.report(found, "The connector", as_json=as_json))


@app.command()
def preview(
    file: Annotated[Path, typer.Argument(help="A connector's file: properties, or JSON.")],
    records: Annotated[int, typer.Option(min=1, max=100, help="The most records.")] = 20,
    begin: Annotated[
        str,
        typer.Option(
            "--from", help="stored (its stored offsets) or earliest; for a sink also latest, an offset, or a time."
        ),
    ] = "stored",
    diff: Annotated[
        bool, typer.Option("--diff", help="Show what changes against the connector of this name that runs.")
    ] = False,
    sample: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='A source\'s records: JSON lines such as {"key": 1, "value": {"a": 2}}.'),
    ] = None,
    rest: Rest = LOCAL,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as one JSON object on stdout.")] = False,
    user: User = None,
    token: Token = None,
    cacert: CaCert = None,
    cert: Cert = None,
) -> None:
    """Show what a connector would do to real records, stage by stage, and change nothing.

    A running worker reads them with its own logins. Exit code 1 when a record would fail its task.
    """
    import json

    from rich.console import Console

    from headrace.config.properties import read_connector
    from headrace.worker.cli import preview as asking

    options = asking.Options(Login(rest, user, token, cacert, cert), records, begin, diff, sample)
    with failing_with_reason():
        found = asking.ask(read_connector(file), options)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        asking.show(found, Console(soft_wrap=False))
    raise typer.Exit(1 if asking.failed(found) else 0)


@app.command()
def lint(
    files: Annotated[
        list[Path], typer.Argument(help="Files of connectors, workers and MirrorMaker, or folders with them.")
    ],
    worker_file: Annotated[
        Path | None,
        typer.Option("--worker", metavar="FILE", help="The properties of the worker that is to run the connectors."),
    ] = None,
    bootstrap_server: Annotated[
        str | None, typer.Option(help="The Kafka cluster to compare topics, partitions and replicas with.")
    ] = None,
    command_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Properties of Kafka's clients, as in Java.")
    ] = None,
    rest: Annotated[
        str | None, typer.Option(metavar="URL", help="A worker that judges the connectors in place of this machine.")
    ] = None,
    user: User = None,
    token: Token = None,
    cacert: CaCert = None,
    cert: Cert = None,
    format_: Annotated[str, typer.Option("--format", metavar="text|json|sarif", help="What is printed.")] = "text",
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 for warnings, too.")] = False,
) -> None:
    """Say what is wrong, useless or unsafe in configs, without a worker; exit code 2 if there are errors."""
    from headrace.plugins.errors import RetriableError
    from headrace.worker.cli import lint as judging
    from headrace.worker.cli.lint_report import FORMATS

    if format_ not in FORMATS:
        fail(2, f"--format {format_}: write one of {', '.join(FORMATS)}")
    if rest is not None and (worker_file is not None or bootstrap_server is not None):
        fail(2, "--rest: the worker has settings and a cluster of its own; leave out --worker and --bootstrap-server")
    login = None if rest is None else Login(rest, user, token, cacert, cert)
    options = judging.Options(files, worker_file, bootstrap_server, command_config, login, format_, strict)
    try:
        with failing_with_reason():
            raise typer.Exit(judging.run(options, typer.echo))
    except RetriableError as error:
        fail(3, str(error))


@app.command()
def quickstart(
    file: Annotated[Path | None, typer.Argument(help="File to follow.", show_default="the broker's own log")] = None,
    once: Annotated[bool, typer.Option("--once", help="End when every complete line has arrived.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The summary as one JSON object on stdout.")] = False,
    keep: Annotated[Path | None, typer.Option(metavar="DIR", help="Keep all data in this new folder.")] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="REST port; the next free one if taken.")] = 8083,
) -> None:
    """Start a broker, a worker and a pipe from a file through Kafka into a file, and show it flow; Ctrl-C ends it."""
    from headrace.worker.cli import quickstart as pipe

    raise typer.Exit(pipe.run(pipe.Options(file, once, as_json, keep, port)))


@app.command()
def new(
    kind: Annotated[str, typer.Argument(metavar="source|sink|transform|converter")],
    name: Annotated[str, typer.Argument(help="Name of the package, such as shop-prices.")],
    folder: Annotated[Path, typer.Option(help="Where the package's folder is made.")] = Path(),
) -> None:
    """Make a package with a plugin of this kind, with an entry point and tests that pass."""
    from headrace.worker.cli import new_plugin

    if kind not in new_plugin.KINDS:
        fail(2, f"{kind} is no kind of plugin: write one of {', '.join(new_plugin.KINDS)}")
    try:
        made = new_plugin.make(kind, name, folder)
    except new_plugin.WrongNameError as error:
        fail(2, str(error))
    except OSError as error:
        fail(3, str(error))
    typer.echo(f"{made} was made; its README says how to go on, and `python -m pytest {made}` runs its tests")


@app.command()
def run(
    plugin: Annotated[Path, typer.Argument(help="A .py file, a folder or a wheel with a source or a sink.")],
    more: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="More of --config.")] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE|FILE", help="Settings of the connector, or their properties file."),
    ] = None,
    input_file: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help="JSON lines for a sink.", show_default="standard input"),
    ] = None,
    with_keys: Annotated[
        bool, typer.Option("--keys", help='A line for a sink is {"key": …, "value": …, "headers": {…}}.')
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="End after this many records.")] = None,
) -> None:
    """Run one connector with a broker and a worker of its own and show its records; Ctrl-C ends all.

    A source's records are shown as they come. A sink gets a record for each line of JSON; once the input has ended and
    all is written, the command ends. Saving the plugin's file starts it anew, from where it was.
    """
    from headrace.worker.cli import plugin_run

    given = (*(config or ()), *(more or ()))
    raise typer.Exit(plugin_run.run(plugin_run.Options(plugin, given, input_file, with_keys, limit)))


@app.command()
def settings() -> None:
    """Print a reference of all settings of workers, connectors and shipped plugins, in Markdown."""
    from headrace.plugins.interop.discovery import Plugins
    from headrace.worker.cli.settings_page import page

    typer.echo(page(Plugins.shipped()), nl=False)


@app.command()
def worker(
    mode: Annotated[str, typer.Argument(metavar="standalone|distributed")],
    connectors: Annotated[list[Path] | None, typer.Argument(help="Connectors to create; standalone only.")] = None,
    base: Base = None,
) -> None:
    """Run a worker whose properties come from CONNECT_* environment variables, as in a container."""
    from headrace.config.problems import ConfigError
    from headrace.worker.cli import container
    from headrace.worker.cli.unknown_user import UnknownUser

    if mode not in container.MODES or (connectors and mode != "standalone"):
        fail(2, "write `headrace worker standalone [CONNECTORS...]` or `headrace worker distributed`")
    try:
        container.exec_worker(mode, connectors or [], base, os.environ)
    except ConfigError as error:
        fail(2, str(error))
    except UnknownUser as error:
        fail(3, str(error))
    except OSError as error:
        fail(3, f"the worker cannot be started: {error}; look at TMPDIR, and whether Headrace is installed whole")


@app.command()
def health(
    base: Base = None,
    running: Annotated[
        bool, typer.Option("--running", help="Ask the workers that run on this machine, each by its own properties.")
    ] = False,
) -> None:
    """Ask the worker that `headrace worker` runs here whether it is healthy; exit code 1 when it is not.

    Standard error names the URL that is asked.
    """
    from headrace.config.problems import ConfigError
    from headrace.worker.cli import container
    from headrace.worker.cli.running_workers import running_workers

    workers = running_workers() if running else []
    if running and not workers:
        fail(1, "no worker runs here")
    try:
        asked = [one.properties() for one in workers] or [container.merged(base, os.environ)]
        checks = [container.health_check(props) for props in asked if props is not None]
    except ConfigError as error:
        fail(1, str(error))
    if not checks:
        typer.echo("connect-mirror-maker runs; its file has no listeners, so its health is not seen")
    healthy = True
    for url, tls in checks:
        typer.echo(url, err=True)
        answered, said = container.health(url, tls)
        typer.echo(said)
        healthy = healthy and answered
    raise typer.Exit(0 if healthy else 1)


@app.command()
def top(
    rest: Rest = LOCAL,
    sort: Annotated[
        str,
        typer.Option(metavar="state|name|records|lag|errors", help="What comes first; by state, what is not well."),
    ] = "state",
    once: Annotated[bool, typer.Option("--once", help="Print the table once.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object once.")] = False,
    interval: Annotated[float, typer.Option(min=0.5, help="Seconds between two looks.")] = 2.0,
    user: User = None,
    token: Token = None,
    cacert: CaCert = None,
    cert: Cert = None,
) -> None:
    """Show a cluster's connectors with states, tasks, records a second, lag and errors; Ctrl-C ends it."""
    from headrace.worker.cli import top as table

    if sort not in table.SORTS:
        fail(2, f"--sort {sort}: write one of {', '.join(table.SORTS)}")
    with failing_with_reason():
        watched = table.Watched(Login(rest, user, token, cacert, cert))
        if once or as_json:
            table.once(watched, sort, as_json)
        else:
            table.watch(watched, sort, interval)


def _pairs(settings: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not key.strip() or not equals:
            raise ValueError(f"--set {setting}: write it as key=value, for example --set num.partitions=3")
        pairs[key.strip()] = value.strip()
    return pairs


if __name__ == "__main__":
    main()
