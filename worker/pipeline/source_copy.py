"""A source's batch copied from Kafka to Kafka as it is: nothing changes the source's bytes.

Decided: never as a job, because the brokers are the bound, and copying takes half a core (6,000,000 records of 170
bytes by two tasks: 1,250,000 a second inline, 740,000 to 950,000 as jobs, which begin with connections of their own; 2
cores, both brokers beside it); loses: a Spark cluster's network, if it is nearer to the brokers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from headrace.plugins.contracts import ArrowReader, CopyingReader, SourceTask
from headrace.worker.outcome import Outcome
from headrace.worker.pipeline.encoding import SourceEncoding
from headrace.worker.pipeline.executor import PlannedBatch
from headrace.worker.pipeline.scope import TaskScope
from headrace.worker.pipeline.source_producer import SourceProducer


@dataclass(frozen=True)
class CopiedSource:
    """Has the readers of one source task copy its batches, in the worker."""

    scope: TaskScope
    task: SourceTask
    encoding: SourceEncoding
    producer: SourceProducer

    def takes(self, reader: ArrowReader) -> bool:
        """True if this reader can copy, and all that it reads goes to Kafka as it is."""
        return (
            self.producer.transactions is None
            and issubclass(type(reader), CopyingReader)
            and self.encoding.keeps_bytes
            and cast(CopyingReader, reader).can_copy(self.producer.client)
        )

    def run(self, work: PlannedBatch) -> Outcome[int]:
        """Have the reader copy the splits."""
        self.producer.topics.ensure(self.task.topics())
        reader, splits = cast(CopyingReader, work.reader), range(len(work.plan.splits))
        outcome = Outcome(reader.copy(splits, self.producer.client, self.scope.stop))
        self.scope.engine.copied(outcome)
        return outcome
