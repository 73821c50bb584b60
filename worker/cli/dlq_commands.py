"""`headrace dlq show` and `headrace dlq replay`: show a connector's dead letters, and send them again.

Replayed dead letters are committed for the group `headrace-dlq-<connector>`, so each is replayed once, and an
interrupted replay goes on from there (records that were acknowledged and not committed yet then come twice).

Decided: a dead letter goes back to the partition that it came from, because its key may be null or its partitioner
another; with `--to` the key decides, as the other topic may have fewer partitions; loses: nothing known.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaException, TopicPartition
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.config.connector.config import converter_config
from headrace.config.problems import ConfigError
from headrace.plugins.contracts import Converter
from headrace.plugins.errors import DataError, RetriableError
from headrace.plugins.interop.discovery import Plugins
from headrace.worker.cli.dlq_topic import TIMEOUT_S, DeadLetters, DlqError, context, own_headers

log = logging.getLogger(__name__)

_SHOWN: Final = 120
"""The most characters of a table's cell."""
_AT_ONCE: Final = 500


def show(letters: DeadLetters, limit: int, as_json: bool) -> int:
    """Print the newest dead letters, oldest first; returns the exit code. Errors: DlqError."""
    with letters.opened() as consumer, _shower(letters, "key") as key, _shower(letters, "value") as value:
        found = [_described(message, key, value) for message in _newest(letters, consumer, limit)]
    if as_json:
        for one in found:
            sys.stdout.write(json.dumps(one, ensure_ascii=False) + "\n")
        return 0
    Console().print(_table(letters, found))
    Console().print(Text(_printable(f"the newest {len(found)} dead letters of {letters.connector}")))
    return 0


def _newest(letters: DeadLetters, consumer: Any, limit: int) -> list[Any]:
    """Read the connector's newest dead letters; further back if other connectors' are between them."""
    ends, span = letters.ends(consumer), limit
    while True:
        begin = {number: max(low, high - span) for number, (low, high) in ends.items()}
        found = [message for message in letters.read(consumer, begin, ends) if letters.has(message)]
        if len(found) >= limit or all(begin[number] == low for number, (low, _) in ends.items()):
            return sorted(found, key=lambda m: (m.timestamp()[1], m.offset()))[-limit:]
        span *= 8


def replay(letters: DeadLetters, to: str | None, limit: int | None, dry_run: bool, say: Callable[[str], None]) -> int:
    """Send dead letters not replayed yet to their topics, or to `to`; returns the exit code. Errors: DlqError."""
    with letters.opened() as consumer:
        ends = letters.ends(consumer)
        asked = [TopicPartition(letters.topic, number) for number in ends]
        done = {one.partition: one.offset for one in consumer.committed(asked, timeout=TIMEOUT_S)}
        begin = {number: max(low, done[number]) for number, (low, _) in ends.items()}
        sent = _Replay(letters, to, dry_run, consumer)
        try:
            for message in letters.read(consumer, begin, ends):
                sent.take(message)
                if sent.counts.total() == limit:
                    break
        finally:
            sent.settle()  # a letter that cannot be sent does not bring back those before it
    verb = "would be replayed" if dry_run else "replayed"
    for topic, count in sorted(sent.counts.items()):
        say(_printable(f"{count} {verb} to {topic}"))
    say(f"{sent.counts.total()} of {letters.connector}'s dead letters {verb}")
    return 0


@dataclass
class _Replay:
    letters: DeadLetters
    to: str | None
    dry_run: bool
    consumer: Any
    counts: Counter[str] = field(default_factory=Counter)
    next: dict[int, int] = field(default_factory=dict)
    """The offset after the last letter taken, by partition."""
    on_their_way: set[tuple[int, int]] = field(default_factory=set)
    refusal: str = ""

    def __post_init__(self) -> None:
        self.producer = None if self.dry_run else self.letters.producer()

    def take(self, message: Any) -> None:
        """Send one letter. Errors: DlqError if it cannot be sent; it is not committed then."""
        if self.letters.has(message):
            topic, partition = self._target(message)
            if self.producer is not None:
                self._produce(message, topic, partition)
            self.counts[topic] += 1
        self.next[message.partition()] = message.offset() + 1
        if len(self.on_their_way) >= _AT_ONCE:
            self.settle()

    def settle(self) -> None:
        """Wait for sent letters and commit them, each partition up to its first letter that did not arrive.

        Errors: DlqError if one did not.
        """
        if self.producer is None or not self.next:
            return
        self.producer.flush(60)
        for number in self.next:
            waiting = [offset for other, offset in self.on_their_way if other == number]
            self.next[number] = min([self.next[number], *waiting])
        offsets = [TopicPartition(self.letters.topic, number, offset) for number, offset in self.next.items()]
        self.consumer.commit(offsets=offsets, asynchronous=False)
        self.next.clear()
        if self.on_their_way:
            why = self.refusal or f"{len(self.on_their_way)} records were not acknowledged within 60 s"
            raise DlqError(f"the replay stopped: {why}; the next goes on there, and another topic is named by --to")

    def _produce(self, message: Any, topic: str, partition: int | None) -> None:
        kind, stamp = message.timestamp()
        place = message.partition(), message.offset()
        send = partial(
            self.producer.produce,  # type: ignore[union-attr]
            topic,
            message.value(),
            message.key(),
            headers=own_headers(message),
            timestamp=stamp if kind else 0,
            on_delivery=partial(self._delivered, place),
            **({} if partition is None else {"partition": partition}),
        )
        try:
            try:
                send()
            except BufferError:
                self.settle()
                send()
        except (KafkaException, BufferError, OverflowError) as error:
            raise DlqError(f"{_named(message)} cannot be sent to {topic}: {error}; another is named by --to") from error
        self.on_their_way.add(place)

    def _delivered(self, place: tuple[int, int], error: Any, message: Any) -> None:
        if error is None:
            self.on_their_way.discard(place)
        else:
            self.refusal = f"a record for {message.topic()} was refused: {error}"

    def _target(self, message: Any) -> tuple[str, int | None]:
        if self.to is not None:
            return self.to, None
        told = context(message)
        if "source.partition" in told:
            raise DlqError(
                f"{_named(message)} is a source's: it shows what was read before transforms, which is not what topic "
                f"{_printable(str(told.get('topic')))} has; send it to a topic of its own with --to", 2
            )  # fmt: skip
        if "topic" not in told:
            raise DlqError(
                f"{_named(message)} does not say where it came from: name a topic with --to (and --limit 1, where it "
                "is the only one), and set errors.deadletterqueue.context.headers.enable=true for those to come", 2
            )  # fmt: skip
        partition = told.get("partition", "")
        return told["topic"], int(partition) if partition.isdecimal() else None


def _named(message: Any) -> str:
    return f"the dead letter {message.topic()}-{message.partition()} at offset {message.offset()}"


_Shower = Callable[[bytes | None], str | None]


@contextmanager
def _shower(letters: DeadLetters, side: str) -> Iterator[_Shower]:
    """Yield a function that shows bytes as text, with the converter of the connector's config, if any."""
    named = converter_config(side, letters.config, {})
    if not named.class_name:
        yield _text
        return
    try:
        converter = Plugins.discover().find("converter", named.class_name).load()()
        converter.configure(named.props, side == "key")
    except ConfigError as error:
        log.warning("%ss are shown as they are: %s cannot be used here: %s", side, named.class_name, error)
        yield _text
        return
    try:
        yield partial(_shown, converter)
    finally:
        converter.close()


def _shown(converter: Converter, data: bytes | None) -> str | None:
    try:
        shown = None if data is None else converter.shown(data)
    except (DataError, RetriableError):
        shown = None  # this may be why it is a dead letter
    return _text(data) if shown is None else shown


def _described(message: Any, key: _Shower, value: _Shower) -> dict[str, Any]:
    kind, stamp = message.timestamp()
    return {
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": stamp if kind else None,
        "key": key(message.key()),
        "value": value(message.value()),
        "headers": {key: _text(value) for key, value in own_headers(message)},
        "error": context(message),
    }


def _text(data: bytes | None) -> str | None:
    """Decode the bytes as text if possible, else show them in hex."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return f"0x{data.hex()}"


def _table(letters: DeadLetters, found: list[dict[str, Any]]) -> Table:
    table = Table(title=Text(_printable(f"Dead letters in {letters.topic}")), show_lines=True)
    for name in ("offset", "record", "stage", "error", "key", "value"):
        table.add_column(name, overflow="fold")
    for one in found:
        told = one["error"]
        origin = f"{told.get('topic')}-{told.get('partition')}@{told.get('offset')}" if "partition" in told else None
        cells = (
            f"{one['partition']}:{one['offset']}",
            origin or told.get("source.offset"),
            told.get("stage"),
            told.get("exception.message"),
            one["key"],
            one["value"],
        )
        table.add_row(*(_cut(cell or "") for cell in cells))
    return table


def _cut(text: str) -> Text:
    """Shorten the text; it is shown literally, not as Rich's markup or a terminal's commands."""
    return Text(_printable(text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
