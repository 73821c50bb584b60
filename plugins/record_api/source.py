"""Sources that yield records one by one."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from headrace.plugins.contracts import SourcePartition
from headrace.plugins.record_api.connector import RecordConnector
from headrace.plugins.record_api.packing import json_text
from headrace.plugins.record_api.source_task import PARTITIONS, RecordSourceTask


class RecordSource(RecordConnector):
    """A source whose `poll` yields what is new.

        class Prices(RecordSource):
            settings = [Setting("url"), Setting("topic")]

            def poll(self, after):
                for price in httpx.get(self.config["url"], params=after or {"id": 0}).json():
                    yield Record(price, key=price["id"], offset={"id": price["id"]})

    `poll` is called again at once if its offsets went on, else after `poll_interval_s`. What it yields waits until it
    is sent; some thousand records may wait, then it is held up. If only some were sent, it is called with the offset
    stored last. An error of `retriable`'s types has the same effect, with back-off; any other fails the task.

    One object polls in each task, its partitions at the same time, each in a thread (or a coroutine) of its own.
    Another object answers `partitions` and `validate`.
    """

    value_schema: ClassVar[Any] = None
    """Schema of all values, as `schema_of` takes it, such as a dataclass; None: a dict is JSON without schema."""
    key_schema: ClassVar[Any] = None
    """As `value_schema`, of keys."""
    poll_interval_s: ClassVar[float] = 1.0
    """The pause after a `poll` that brought nothing new; `wake` ends it."""
    only_reads: ClassVar[bool] = False
    """True if `open` and `poll` change nothing outside: a preview may then call them, with a `close` at the end."""

    task: ClassVar[type] = RecordSourceTask

    @abstractmethod
    def poll(self, *arguments: Any, **named: Any) -> Any:
        """Yield the records after an offset: `poll(after)`, or `poll(after, partition)` beside a `partitions`.

        `after` is the offset of the last record that was yielded, None at first. May be a generator, return a list, or
        be either as `async def`; may block.
        """

    def partitions(self) -> Sequence[SourcePartition]:
        """Return the parts of the outside system, each with offsets of its own; the tasks share them."""
        return [{}]

    def stored(self, *arguments: Any) -> Any:
        """Acknowledge all up to this offset: `stored(offset)`, or `stored(offset, partition)` beside `partitions`.

        Called once all records up to it are in Kafka and it is stored, which is each `offset.flush.interval.ms`, beside
        a `poll` that runs. After an error of `retriable`'s types it is called again. May be `async`.
        """

    def close(self) -> Any:
        """Close what `open` opened, also if a `poll` still blocks; may be `async`."""

    def wake(self) -> None:
        """Have `poll` called now; any thread may call."""
        self.wake_pollers()

    # -- the contract's side -------------------------------------------------------------------------------------------

    wake_pollers: Any = staticmethod(lambda: None)
    """Set by its task."""

    @classmethod
    def overrides(cls, method: str) -> bool:
        """Return True if the author wrote this method."""
        return getattr(cls, method) is not getattr(RecordSource, method)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return a config for each task, which names its partitions."""
        texts = self.partition_texts()
        if twice := [text for text, count in Counter(texts).items() if count > 1]:
            raise ValueError(f"{type(self).__name__}.partitions gave {twice[0]} twice; each has offsets of its own")
        count = min(max_tasks, len(texts))
        return [{**self.given, PARTITIONS: f"[{','.join(texts[task::count])}]"} for task in range(count)]

    def partition_texts(self) -> list[str]:
        """Return its partitions as JSON. Errors: TypeError for one that is no dict."""
        return [self._text_of(one) for one in self.partitions()]

    def _text_of(self, partition: Any) -> str:
        if not isinstance(partition, Mapping):
            name = f"{type(self).__name__}.partitions"
            raise TypeError(f"{name} gave {partition!r:.60}; a partition is a dict of JSON values")
        return json_text(partition)

    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        """Say whether its records can come once each: if each has an offset, which is checked as they come."""
        return True
