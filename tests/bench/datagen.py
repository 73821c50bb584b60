"""Measures how fast Datagen fills topics, as JSON and as Avro, by one task and by two."""

from __future__ import annotations

from collections.abc import Mapping

from tests.bench.avro import registry
from tests.bench.context import Bench, Figures
from tests.bench.sides import Side
from tests.bench.throughput import BOUND_S, COMMIT_INTERVAL, figures_of


def json_topic(bench: Bench, side: Side, tasks: int = 1) -> Figures:
    """Orders with a key and three headers → topic of JSON without schema."""
    json = {"value.converter": "JsonConverter", "value.converter.schemas.enable": "false"}
    return _filled(bench, side, json, tasks)


def avro_topic(bench: Bench, side: Side) -> Figures:
    """The same → topic of Avro."""
    with registry() as url:
        avro = {"value.converter": "io.confluent.connect.avro.AvroConverter"}
        return _filled(bench, side, {**avro, "value.converter.schema.registry.url": url}, 1)


def _filled(bench: Bench, side: Side, converter: Mapping[str, str], tasks: int) -> Figures:
    """Figures of the last third."""
    count = bench.size.lines
    with bench.run("datagen") as run:
        topic = run.topic()
        connector = {
            "name": run.name,
            "connector.class": "Datagen",
            "kafka.topic": topic,
            "quickstart": "orders",
            "max.interval": "0",
            "tasks.max": str(tasks),
            "iterations": str(count // tasks),
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            **converter,
        }
        with run.worker(side, [connector], COMMIT_INTERVAL) as worker:
            worker.until(lambda: bench.topics.end(topic) >= count * 2 // 3, "two thirds of the records", BOUND_S)
            first, begin = bench.topics.end(topic), worker.cost()
            worker.until(lambda: bench.topics.end(topic) >= count // tasks * tasks, "all records", BOUND_S)
            return figures_of(bench.topics.end(topic) - first, worker.cost() - begin, worker)
