"""The findings of a verification as data; `as_text` and `as_json` show it, `is_good` decides the exit code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from headrace.connectors.mirror.verify.comparison import Comparison
from headrace.connectors.mirror.verify.groups import GroupPosition
from headrace.connectors.mirror.verify.reading import OffsetRange
from headrace.connectors.mirror.verify.state import Pair


@dataclass
class PartitionReport:
    """One partition: the end of its copy, and the comparison."""

    partition: int
    source: OffsetRange
    target: OffsetRange
    copied: Pair | None = None
    """The last copied record, in both clusters."""
    copied_by: str = "nothing"
    """The ground of that: `content`, the copy's last record; `sync`, the newest offset sync; `stored`, the task's
    stored offset; `nothing`."""
    last_copied_ms: int | None = None
    newest_ms: int | None = None
    lag_records: int = 0
    lag_is_exact: bool = True
    """False: it is the distance of offsets, gaps and markers included."""
    lag_seconds: float | None = None
    stored: int | None = None
    sync: Pair | None = None
    comparison: Comparison | None = None
    notes: list[str] = field(default_factory=list)


@dataclass
class TopicReport:
    """One topic of the source and its copy."""

    topic: str
    copy: str
    problems: list[str] = field(default_factory=list)
    """Different settings, missing partitions or a missing copy."""
    partitions: list[PartitionReport] = field(default_factory=list)


@dataclass
class Report:
    """One verification of a flow."""

    source: str
    target: str
    at_ms: int
    max_lag: int
    compared: bool
    topics: list[TopicReport] = field(default_factory=list)
    groups: list[GroupPosition] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def differences(self) -> Iterator[str]:
        """Everything that is not as it should be, one line each."""
        for topic in self.topics:
            yield from (f"{topic.topic}: {problem}" for problem in topic.problems)
            for one in topic.partitions:
                name = f"{topic.topic}-{one.partition}"
                if one.lag_records > self.max_lag:
                    yield f"{name}: {_lag(one)} behind"
                if one.comparison is not None and one.comparison.equal is False:
                    yield f"{name}: {_difference(one.comparison)}"
                if one.comparison is not None and one.comparison.equal is None:
                    yield f"{name}: not compared: {'; '.join(one.comparison.notes)}"
        for place in self.groups:
            yield from (f"group {place.group}, {place.partition}: {why}" for why in place.why)

    def is_good(self) -> bool:
        """True if nothing differs."""
        return next(self.differences(), None) is None


def as_json(report: Report) -> dict[str, Any]:
    """The whole report; ranges have `start` and `end` (excluded), pairs `upstream` and `downstream`."""
    shown: dict[str, Any] = _named(asdict(report))
    shown["differences"] = list(report.differences())
    shown["equal"] = not shown["differences"]
    return shown


def _named(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _named(one) for name, one in value._asdict().items()}
    if isinstance(value, dict):
        return {name: _named(one) for name, one in value.items()}
    return [_named(one) for one in value] if isinstance(value, list | tuple) else value


def as_text(report: Report) -> Iterator[str]:
    """The report for people: a line for each topic, and one for each partition and group with news."""
    yield f"{report.source}->{report.target} at {_time(report.at_ms)}"
    for topic in report.topics:
        yield from _topic_lines(topic)
    if report.groups:
        yield "Consumer groups (offset at the source -> at the target):"
        yield from (line for place in report.groups for line in _group_lines(place))
    yield from (f"Note: {note}" for note in report.notes)
    found = list(report.differences())
    yield f"{len(found)} differences:" if len(found) != 1 else "1 difference:"
    yield from (f"  {line}" for line in found)
    if not found:
        checked = "records compared" if report.compared else "records not compared: ask for --hash or a range"
        yield f"Equal, as far as was asked ({checked})."


def _topic_lines(topic: TopicReport) -> Iterator[str]:
    lag = sum(one.lag_records for one in topic.partitions)
    slowest = max((one.lag_seconds or 0 for one in topic.partitions), default=0)
    done = [one.comparison for one in topic.partitions if one.comparison is not None]
    head = f"{topic.topic} -> {topic.copy}: {len(topic.partitions)} partitions, {lag} records behind ({slowest:g} s)"
    if done:
        equal = sum(one.equal is True for one in done)
        head += f"; {equal} of {len(done)} partitions equal, {sum(one.upstream_records for one in done)} records"
    yield head
    yield from (f"  ! {problem}" for problem in topic.problems)
    for one in topic.partitions:
        yield f"  {one.partition}: {_copied(one)}, {_lag(one)} behind"
        yield from (f"     {note}" for note in one.notes)
        if one.comparison is not None:
            yield f"     {_compared(one.comparison)}"


def _copied(one: PartitionReport) -> str:
    if one.copied is None:
        return "nothing copied" if one.copied_by == "nothing" else f"copied up to {one.stored} (stored offset)"
    up, down = one.copied
    how = {"content": "", "sync": ", by the newest offset sync", "stored": ", by the stored offset"}[one.copied_by]
    return f"copied up to {up} -> {down}{how}"


def _lag(one: PartitionReport) -> str:
    seconds = "" if one.lag_seconds is None or not one.lag_records else f" ({one.lag_seconds:g} s)"
    return f"{one.lag_records} {'records' if one.lag_is_exact else 'offsets'}{seconds}"


def _compared(one: Comparison) -> str:
    ranges = f"source {_range(one.upstream)}, target {_range(one.downstream)}"
    if one.equal is None:
        return f"not compared ({ranges}): {'; '.join(one.notes)}"
    by = "" if one.by == "order" else ", by the last record of each key"
    counted = f"{one.upstream_records} records" + (f", digest {one.digest}" if one.digest and one.equal else "")
    said = "equal" if one.equal else _difference(one)
    repeated = f", {one.repeated} of the copy's repeated" if one.repeated else ""
    notes = f" ({'; '.join(one.notes)})" if one.equal and one.notes else ""
    return f"{said}: {ranges}{by}: {counted}{repeated}{notes}"


def _difference(one: Comparison) -> str:
    parts = []
    if one.missing:
        parts.append(f"{one.missing} records are missing at the target, first upstream offsets {_some(one.missing_at)}")
    if one.extra:
        parts.append(f"{one.extra} records are at the target alone, first downstream offsets {_some(one.extra_at)}")
    return "; ".join(parts + one.notes) or "differs"


def _group_lines(place: GroupPosition) -> Iterator[str]:
    there = "none" if place.at_target is None else str(place.at_target)
    translated = "none" if place.translated is None else str(place.translated)
    again = "" if place.redelivered is None else f", about {place.redelivered} records again"
    mark = "!" if place.why else " "
    yield (
        f"  {mark} {place.group}, {place.partition}: {place.committed} -> {there}, checkpoint {translated}{again}, "
        f"{max(0, place.end - place.committed)} to read at the source"
    )
    yield from (f"      {one}" for one in (*place.why, *place.notes))


def _range(one: OffsetRange) -> str:
    return f"{one.start}..{one.end - 1}" if one.end > one.start else "nothing"


def _some(offsets: list[int]) -> str:
    return ", ".join(map(str, offsets))


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
