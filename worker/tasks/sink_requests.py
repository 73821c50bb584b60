"""Grants what a sink asks of its worker between batches."""

from __future__ import annotations

import logging
import time

from headrace.plugins.contracts import SinkRequests
from headrace.worker.tasks.positions import Positions
from headrace.worker.tasks.sink_consumer import SinkConsumer

log = logging.getLogger(__name__)


def grant(requests: SinkRequests, consumer: SinkConsumer, positions: Positions) -> None:
    """Go on elsewhere, rest and commit as the sink asks, in partitions that the task has."""
    if not any(requests):
        return
    mine = set(consumer.partitions.assigned)
    if offsets := {p: offset for p, offset in requests.offsets.items() if p in mine}:
        log.info("The sink goes on with other records: %s", ", ".join(f"{p} {at}" for p, at in offsets.items()))
        positions.go_on(offsets)
        consumer.partitions.seek()
    for partition, seconds in requests.rests.items():
        if partition in mine:
            consumer.partitions.rest(partition, time.monotonic() + seconds)
    if requests.commit:
        consumer.offsets.commit(wait=False)
