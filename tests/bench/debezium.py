"""Measures the cost of Debezium's snapshot of a PostgreSQL table, into a topic of Avro with a real registry.

Both sides run the same Debezium from its jars. Apache Connect has no Avro converter of its own: it has Apicurio's, with
Confluent's wire format; Headrace has its own. The window begins when a third of the rows is in the topic and ends when
all are.
"""

from contextlib import ExitStack
from pathlib import Path

from headrace.worker.cli.plugin_install import install
from headrace.worker.embedded.registry_files import CCOMPAT
from headrace.worker.embedded.registry_server import Registry
from headrace.worker.machine.maven import Coordinates
from tests.bench.context import Bench, Figures, Run
from tests.bench.jdbc import OF_SERVER, ServerTime, with_database
from tests.bench.processes import Failed
from tests.bench.sides import Side
from tests.bench.throughput import figures_of
from tests.integration.databases import Database, PostgresqlServer
from tests.integration.java_plugins import debezium, debezium_config

BOUND_S = 600
APICURIO = "io.apicurio:apicurio-registry-utils-converter:2.6.13.Final"
TABLE = (
    "CREATE TABLE orders (id int PRIMARY KEY, customer text NOT NULL, price numeric(10,2), open boolean, "
    "created timestamptz, day date)",
    "INSERT INTO orders SELECT n, 'customer-' || n::bigint * 7919 % 100003, n % 100000 * 0.01, n % 2 = 0, "
    "timestamptz '2026-01-01 00:00:00Z' + n * interval '37 ms', date '2026-01-01' + n % 365 "
    "FROM generate_series(1, {count}) n",
)
CONFLUENTS_WIRE_FORMAT = {
    "apicurio.registry.auto-register": "true",
    "apicurio.registry.as-confluent": "true",
    "apicurio.registry.use-id": "contentId",
}


def snapshot(bench: Bench, side: Side) -> Figures:
    """One table → one topic of change events, key and value in Avro, one task."""
    count = bench.size.lines // 6
    with ExitStack() as stack:
        run = stack.enter_context(bench.run("debezium"))
        server = stack.enter_context(PostgresqlServer(durable=True, options=(*OF_SERVER, "-c", "wal_level=logical")))
        database = stack.enter_context(server.database())
        database.execute(*(one.format(count=count) for one in TABLE))
        registry = stack.enter_context(Registry(run.directory / "registry"))
        topic = f"{_prefix(run)}.public.orders"
        bench.topics.create(topic)
        run.made.append(topic)
        settings = {"plugin.path": str(_plugins(bench)), "plugin.discovery": "hybrid_warn"}
        of_server = ServerTime(server.pid)
        with run.worker(side, [_connector(run, side, database, registry.url)], settings) as worker:

            def there() -> int:
                return bench.topics.end(topic)

            worker.until(lambda: there() >= count // 3, "a third of the rows in the topic", BOUND_S, every=0.1)
            first, begin, database_begin = there(), worker.cost(), of_server.seconds()
            worker.until(lambda: there() >= count, "all rows in the topic", BOUND_S)
            last, spent, of_database = there(), worker.cost() - begin, of_server.seconds() - database_begin
            figures = figures_of(last - first, spent, worker)
        if last != count:
            raise Failed(f"wrong output: {last} records of {count} rows")
        sizes = [len(value) for value in bench.topics.read(topic, count)]
    return {**with_database(figures, of_database), "value_bytes": sum(sizes) / count}


def _prefix(run: Run) -> str:
    """Of topics, and of names in Avro."""
    return run.name.replace("-", "_")


def _connector(run: Run, side: Side, database: Database, registry_url: str) -> dict[str, str]:
    source = {
        **debezium_config(database, _prefix(run)),
        "name": f"{run.name}-source",
        "slot.drop.on.stop": "true",
        "tasks.max": "1",
        "max.batch.size": "8192",
        "max.queue.size": "32768",
    }
    for part in ("key", "value"):
        source |= {f"{part}.converter{name}": value for name, value in converter(side, registry_url).items()}
    return source


def converter(side: Side, registry_url: str) -> dict[str, str]:
    """Settings of Avro's converter: Apache Connect has Apicurio's. `registry_url`: of Apicurio's Confluent API."""
    if not side.jars:
        return {"": "io.confluent.connect.avro.AvroConverter", ".schema.registry.url": registry_url}
    apicurios = registry_url.removesuffix(CCOMPAT) + "/apis/registry/v2"
    settings = {"apicurio.registry.url": apicurios, **CONFLUENTS_WIRE_FORMAT}
    return {
        "": "io.apicurio.registry.utils.converter.AvroConverter",
        **{f".{key}": value for key, value in settings.items()},
    }


def _plugins(bench: Bench) -> Path:
    folder = bench.directory / "debezium"
    if not folder.exists():
        install(Coordinates.parse(APICURIO), debezium(folder))
    return folder / "plugins"
