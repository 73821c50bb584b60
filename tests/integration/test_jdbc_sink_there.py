"""The JDBC sink in Spark jobs of the worker's own, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.plugins.contracts import TopicPartition
from headrace.worker.engine.programs import Engine
from tests.integration.databases import Database
from tests.integration.sinking import Sinking, shared, struct, with_schema
from tests.integration.worker_process import Topic

__all__ = ["shared"]

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long]


def records(numbers: Sequence[int], *more: str) -> list[bytes]:
    schema = struct(("id", "int32"), *((name, "string?") for name in more))
    return [with_schema(schema, {"id": number, **dict.fromkeys(more, "x")}) for number in numbers]


@pytest.mark.soak
@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_job_knows_the_layouts_that_came_after_the_first(shared: Engine, broker: str, database: Database) -> None:
    topic = Topic(broker, "rows")
    place = TopicPartition(topic.name, 0)
    topic.send([*records(range(100)), *records(range(100, 200), "note"), *records(range(200, 250))])
    settings = {"topics": topic.name, "table.name.format": "t", "pk.mode": "record_value", "pk.fields": "id"}
    settings |= {"auto.create": "true", "auto.evolve": "true"}
    options = {"kafka.bootstrap.servers": broker}
    sink = Sinking(shared, database, settings, kafka_options=options)
    sink.open(place)

    def there(begin: int, end: int) -> int | None:
        sink.pipeline.jobs.begin({place: (begin, end)}, 200)
        (reached,) = sink.pipeline.jobs.take()
        return reached.upto

    sink.pipeline.decoding.run(sink.rows(*records([0])))  # as a batch inline has met them
    assert [there(0, 50), there(50, 100)] == [49, 99], "a plan that is used again"
    assert there(100, 150) is None, "of this schema it knows nothing yet"
    sink.pipeline.decoding.run(sink.rows(*records([0], "note"), *records([0])))
    assert [there(100, 150), there(150, 250)] == [149, 249]
    assert database.rows("SELECT count(*), count(DISTINCT id), count(note) FROM t") == [(250, 250, 100)]
    sink.stop()
