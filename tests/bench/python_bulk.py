"""The work without Kafka Connect: a topic into an index by the official client's bulk helper.

`python -m tests.bench.python_bulk BOOTSTRAP TOPIC COUNT URL INDEX` prints what the last two thirds cost, as JSON.
"""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from confluent_kafka import Consumer
from opensearchpy import OpenSearch, helpers

_AT_ONCE = 2000


def main(bootstrap: str, topic: str, count: int, url: str, index: str) -> None:
    """Consume and index all of it."""
    settings = {"bootstrap.servers": bootstrap, "group.id": f"python-{index}", "auto.offset.reset": "earliest"}
    consumer, client = Consumer(settings), OpenSearch(url, timeout=60)
    consumer.subscribe([topic])
    done, first, began = 0, 0, 0.0
    while done < count:
        messages = consumer.consume(_AT_ONCE, timeout=1.0)
        helpers.bulk(client, _actions(messages, index), chunk_size=_AT_ONCE)
        done += len(messages)
        if not first and done >= count // 3:
            first, began = done, time.process_time()
    print(json.dumps({"count": done - first, "cpu_s": time.process_time() - began}))
    consumer.close()


def _actions(messages: list[Any], index: str) -> Iterator[dict[str, Any]]:
    for message in messages:
        yield {
            "_op_type": "index",
            "_index": index,
            "_id": f"{message.topic()}+{message.partition()}+{message.offset()}",
            "_source": json.loads(message.value()),
        }


if __name__ == "__main__":
    main(*sys.argv[1:3], int(sys.argv[3]), *sys.argv[4:])  # type: ignore[misc, arg-type]
