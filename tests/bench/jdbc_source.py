"""Measures a bulk read of a PostgreSQL table on its way into a topic, beside a plain Spark JDBC read with one cursor.
The rows of the latter are made JSON by `to_json` and written by Spark's own Kafka sink.

Each reads the table eight times, one after the other; the first five times are warm-up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.worker.engine.driver import Spark
from headrace.worker.engine.driver_jars import driver_jars
from tests.bench.context import Bench, Figures
from tests.bench.processes import Failed
from tests.bench.sides import Side
from tests.integration.databases import Database, PostgresqlServer

BOUND_S = 600
PASSES = 8
WARM_UP = 5
_ROWS = """
INSERT INTO orders
SELECT n, 'customer-' || n % 100003, n % 100000 / 100.0, n * 1.5, n % 2 = 0,
       timestamp '2026-07-01' + n * interval '37 ms', 'a note of some length that nobody reads, number ' || n
FROM generate_series(1, {count}) n
"""
_TABLE = """
CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, price numeric(12,2), weight double precision,
                     open boolean, created timestamp NOT NULL, note text)
"""


def bulk(bench: Bench, side: Side) -> Figures:
    """Rows per second: `rec_s` by the connector, `plain_s` by plain Spark, their ratio."""
    count = bench.size.lines // 3
    with _database() as database, bench.run("bulk") as run:
        database.execute(_TABLE, _ROWS.format(count=count), "ANALYZE orders")
        ours = _connector(run, side, database, count)
        plain = _plain(bench, run.topic(1), database, count)
    return {"rec_s": ours, "plain_s": plain, "ratio": ours / plain}


def _connector(run: Any, side: Side, database: Database, count: int) -> float:
    topic = run.topic(0)
    connector = {
        "name": f"{run.name}-source",
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "tasks.max": "1",
        "connection.url": database.jdbc_url,
        "connection.user": str(database.url.username),
        "connection.password": str(database.url.password),
        "table.whitelist": "orders",
        "mode": "bulk",
        "poll.interval.ms": "1",
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": ".*",
        "transforms.route.replacement": topic,
    }
    with run.worker(side, [connector], {"value.converter.schemas.enable": "false"}) as worker:
        worker.until(lambda: run.bench.topics.end(topic) >= WARM_UP * count, "the warm-up", BOUND_S)
        first, began = run.bench.topics.end(topic), time.monotonic()
        worker.until(
            lambda: run.bench.topics.end(topic) >= PASSES * count, "the passes that count", BOUND_S, every=0.05
        )
        return float(run.bench.topics.end(topic) - first) / (time.monotonic() - began)


def _plain(bench: Bench, topic: str, database: Database, count: int) -> float:
    spark = Spark({"spark.master": "local[2]"}, driver_jars())
    spark.start()
    try:
        if not spark.wait_ready(120):
            raise Failed("Spark did not start")
        login = {"user": str(database.url.username), "password": str(database.url.password), "fetchsize": "10000"}
        rows = spark.session().read.jdbc(database.jdbc_url, "orders", properties=login)
        written = rows.selectExpr("to_json(struct(*)) AS value").write.format("kafka")
        written = (
            written.option("kafka.bootstrap.servers", bench.topics.bootstrap).option("topic", topic).mode("append")
        )
        began = 0.0
        for number in range(PASSES):
            if number == WARM_UP:
                began = time.monotonic()
            written.save()
        spent = time.monotonic() - began
        if bench.topics.end(topic) != PASSES * count:
            raise Failed(f"wrong output: {bench.topics.end(topic)} records instead of {PASSES * count}")
        return (PASSES - WARM_UP) * count / spent
    finally:
        spark.stop()


@contextmanager
def _database() -> Iterator[Database]:
    with PostgresqlServer(durable=False) as server, server.database() as database:
        yield database
