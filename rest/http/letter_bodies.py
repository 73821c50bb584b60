"""The JSON bodies about a connector's dead letters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Self

from pydantic import Field

from headrace.rest.http.bodies import Body
from headrace.worker.deadletters.letter_pages import CauseCount, CauseCounts, LetterPage, ShownLetter
from headrace.worker.deadletters.removal import Removal
from headrace.worker.deadletters.replay import Replay
from headrace.worker.kafka.record_text import cut

Offsets = Annotated[str, Field(examples=["0:120,1:97"])]
"""An offset for each partition."""
_LONGEST_MESSAGE: Final = 2_000


def offsets_text(offsets: Mapping[int, int]) -> str:
    """Write an offset for each partition: `0:120,1:97`."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(offsets.items()))


class LetterOrigin(Body):
    """The place that a record came from: a sink's topic, or a source's own partition and offset in JSON."""

    topic: str | None
    partition: int | None
    offset: int | None
    source_partition: str | None
    source_offset: str | None

    @classmethod
    def of(cls, told: Mapping[str, str]) -> Self | None:
        """Read the headers of a letter; None if they tell of no origin."""
        if not any(name in told for name in ("topic", "source.partition")):
            return None
        return cls(
            topic=told.get("topic"),
            partition=_number(told.get("partition")),
            offset=_number(told.get("offset")),
            source_partition=told.get("source.partition"),
            source_offset=told.get("source.offset"),
        )


class LetterHeader(Body):
    """A header of a record."""

    key: str
    value: str | None


class DeadLetter(Body):
    """A dead letter. Long texts are cut, and end with how much is missing."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    task: int | None
    origin: LetterOrigin | None
    stage: str | None
    class_name: str | None = Field(serialization_alias="class")
    exception: str | None
    message: str | None
    cause: str
    replayed: bool | None
    key: str | None
    key_bytes: int | None
    value: str | None
    value_bytes: int | None
    headers: list[LetterHeader]

    @classmethod
    def of(cls, shown: ShownLetter, with_data: bool) -> Self:
        """Describe a letter; `with_data`: with key, value and headers."""
        letter = shown.letter
        told = letter.told
        message = told.get("exception.message")
        return cls(
            topic=letter.topic,
            partition=letter.place.partition,
            offset=letter.place.offset,
            timestamp=letter.timestamp,
            task=_number(told.get("task.id")),
            origin=LetterOrigin.of(told),
            stage=told.get("stage"),
            class_name=told.get("class.name"),
            exception=told.get("exception.class.name"),
            message=None if message is None else cut(message, _LONGEST_MESSAGE),
            cause=letter.cause.id,
            replayed=shown.replayed,
            key=shown.key if with_data else None,
            key_bytes=shown.key_bytes,
            value=shown.value if with_data else None,
            value_bytes=shown.value_bytes,
            headers=[LetterHeader(key=key, value=value) for key, value in shown.headers if with_data],
        )


class DeadLetterPage(Body):
    """Dead letters, the newest first; `before` asks for older ones, and is null if there are none."""

    records: list[DeadLetter]
    before: Offsets | None
    with_data: bool
    """False if key, value and headers need the right `edit`."""

    @classmethod
    def of(cls, page: LetterPage, with_data: bool) -> Self:
        return cls(
            records=[DeadLetter.of(one, with_data) for one in page.letters],
            before=None if page.before is None else offsets_text(page.before),
            with_data=with_data,
        )


class FailureCause(Body):
    """The dead letters with one cause, and the newest of them; `waiting` were not replayed yet."""

    cause: str
    stage: str | None
    class_name: str | None = Field(serialization_alias="class")
    exception: str | None
    message: str | None
    count: int
    waiting: int
    first: int | None
    last: int | None
    example: DeadLetter | None

    @classmethod
    def of(cls, count: CauseCount, with_data: bool) -> Self:
        example = None if count.example is None else DeadLetter.of(count.example, with_data)
        told = {name: getattr(count.cause, name) for name in ("stage", "class_name", "exception", "message")}
        of_count = {name: getattr(count, name) for name in ("count", "waiting", "first", "last")}
        return cls(cause=count.cause.id, **told, **of_count, example=example)


class FailureCauses(Body):
    """The causes of the newest dead letters, the most frequent first; `is_all` if older ones were not left out."""

    looked_at: int
    is_all: bool
    causes: list[FailureCause]

    @classmethod
    def of(cls, counts: CauseCounts, with_data: bool) -> Self:
        causes = [FailureCause.of(one, with_data) for one in counts.causes]
        return cls(looked_at=counts.looked_at, is_all=counts.is_all, causes=causes)


class LetterPlace(Body):
    """The place of a dead letter in its topic."""

    partition: int
    offset: int


class WantedReplay(Body):
    """The dead letters to replay: these, or those with a cause, or all that were not replayed yet."""

    records: list[LetterPlace] | None = None
    cause: str | None = None


class Replayed(Body):
    """How many dead letters were sent to each topic; `before` were replayed already, `more` may be left."""

    replayed: int
    topics: dict[str, int]
    before: int
    more: bool

    @classmethod
    def of(cls, made: Replay) -> Self:
        return cls(replayed=made.counts.total(), topics=dict(made.counts), before=made.before, more=not made.is_over)


class Removed(Body):
    """The offsets at which the dead letters of each partition begin now; `more`: ask again to delete the rest."""

    first: Offsets
    more: bool

    @classmethod
    def of(cls, made: Removal) -> Self:
        return cls(first=offsets_text(made.first), more=not made.is_over)


def _number(text: str | None) -> int | None:
    """Parse a number of a header, which may hold anything."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 20 else None
