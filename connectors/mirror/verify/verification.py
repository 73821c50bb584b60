"""One verification of a flow, from the request to the report.

topics -> replication's state -> settings -> ends of both logs -> ends of copies -> records -> consumer groups
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from confluent_kafka.admin import ConfigEntry, ConfigSource

from headrace.connectors.mirror.filters import ConfigPropertyFilter
from headrace.connectors.mirror.source.topic_configs import Entries, changes
from headrace.connectors.mirror.verify.cluster import ClusterReader
from headrace.connectors.mirror.verify.comparing import Comparing, Progress
from headrace.connectors.mirror.verify.copied import CopiedRanges
from headrace.connectors.mirror.verify.flow import VerifiedFlow
from headrace.connectors.mirror.verify.groups import GroupPosition, offsets_of_interest, place_group
from headrace.connectors.mirror.verify.ranges import Aligner
from headrace.connectors.mirror.verify.report import PartitionReport, Report, TopicReport
from headrace.connectors.mirror.verify.request import Asked, UsageError
from headrace.connectors.mirror.verify.state import ReplicationState, read_state
from headrace.plugins.offsets import TopicPartition

Settings = Mapping[str, Entries]


@dataclass
class _Partitions:
    """The partitions that both clusters have."""

    copies: dict[TopicPartition, TopicPartition] = field(default_factory=dict)
    reports: dict[TopicPartition, PartitionReport] = field(default_factory=dict)


class Verification:
    """Verifies a flow. Errors: UnreachableError, StateError, UsageError."""

    def __init__(self, flow: VerifiedFlow, asked: Asked, progress: Progress) -> None:
        self._flow, self._asked, self._progress = flow, asked, progress
        self._source, self._target = flow.clusters(asked.timeout_s)

    def run(self) -> Report:
        """Make the report."""
        now = int(time.time() * 1000)
        report = Report(self._flow.source, self._flow.target, now, self._asked.max_lag, self._asked.compares)
        at_source, at_target = self._source.topics(), self._target.topics()
        topics = self._chosen(at_source)
        offsets_topic = self._asked.offsets_topic or f"mm2-offsets.{self._flow.source}.internal"
        state = read_state(self._source, self._target, self._flow.policy, self._flow.config, offsets_topic)
        report.notes += [f"topic {missing} is not there" for missing in state.missing]
        ours = self._source.settings(topics)
        theirs = self._target.settings([copy for topic in topics if (copy := self._flow.copy_of(topic)) in at_target])
        found = _Partitions()
        for topic in topics:
            report.topics.append(self._topic(topic, at_source, at_target, found, ours, theirs))
        self._ranges(found)
        self._partitions(found, state, ours, theirs)
        for at, one in found.reports.items():
            next(each for each in report.topics if each.topic == at.topic).partitions.append(one)
        report.groups = self._groups(found, state)
        return report

    def _chosen(self, at_source: Mapping[str, int]) -> list[str]:
        unknown = sorted(set(self._asked.topics) - at_source.keys())
        if unknown:
            raise UsageError(f"cluster {self._flow.source} has no topic {unknown[0]}")
        return sorted(self._asked.topics or filter(self._flow.replicates, at_source))

    def _topic(
        self,
        topic: str,
        at_source: Mapping[str, int],
        at_target: Mapping[str, int],
        found: _Partitions,
        ours: Settings,
        theirs: Settings,
    ) -> TopicReport:
        copy = self._flow.copy_of(topic)
        report = TopicReport(topic, copy)
        count = at_target.get(copy)
        if count is None:
            report.problems.append(f"{copy} is not at the target")
            return report
        if count < at_source[topic]:
            report.problems.append(f"{copy} has {count} partitions, {topic} has {at_source[topic]}")
        report.problems += differing(ours[topic], theirs[copy], self._flow.properties)
        for number in range(min(count, at_source[topic])):
            found.copies[TopicPartition(topic, number)] = TopicPartition(copy, number)
        return report

    def _ranges(self, found: _Partitions) -> None:
        """Ask for the ranges of both clusters, the target's first: the source then has all that the target has."""
        target = self._target.ranges(found.copies.values())
        source = self._source.ranges(found.copies)
        for at, copy in found.copies.items():
            found.reports[at] = PartitionReport(at.partition, source[at], target[copy])

    def _partitions(self, found: _Partitions, state: ReplicationState, ours: Settings, theirs: Settings) -> None:
        append_time = {
            topic for topic, settings in theirs.items() if value(settings, "message.timestamp.type") == "LogAppendTime"
        }

        def times_of_copy(copy: TopicPartition) -> bool:
            return copy.topic not in append_time

        copied = CopiedRanges(self._source, self._target, state, found.copies, times_of_copy)
        copied.fill(found.reports)
        for at, one in found.reports.items():
            if not copied.times(at):
                one.notes.append("the copy's timestamps are its own (LogAppendTime): they are not compared")
        if self._asked.compares:
            aligner = Aligner(
                self._source,
                self._target,
                state,
                found.copies,
                copied.times,
                times_of_copy,
                self._flow.from_earliest,
            )
            Comparing(aligner, self._compacted(found, ours, theirs), self._progress).compare(self._asked, found.reports)

    def _compacted(self, found: _Partitions, ours: Settings, theirs: Settings) -> Collection[TopicPartition]:
        def is_compacted(settings: Entries) -> bool:
            return "compact" in value(settings, "cleanup.policy")

        pairs = {at: (ours[at.topic], theirs[copy.topic]) for at, copy in found.copies.items()}
        return {at for at, sides in pairs.items() if any(map(is_compacted, sides))}

    def _groups(self, found: _Partitions, state: ReplicationState) -> list[GroupPosition]:
        source, target = self._source, self._target
        rules = self._flow.groups
        present = source.groups()
        if unknown := sorted(set(self._asked.groups) - present.keys()):
            raise UsageError(f"cluster {self._flow.source} has no consumer group {unknown[0]}")
        wanted = self._asked.groups or sorted(filter(rules.filter.passes, present))
        committed = offsets_of_interest(source.group_offsets(wanted), found.copies)
        members = _known(target, committed)
        there = target.group_offsets(sorted(members))
        places = []
        for group, offsets in committed.items():
            for at, offset in sorted(offsets.items()):
                copy, one = found.copies[at], found.reports[at]
                place = GroupPosition(group, at, offset, one.source.end, at_target=there.get(group, {}).get(copy))
                places.append(place_group(place, copy, one.target, state, rules, members.get(group, False)))
        return places


def _known(target: ClusterReader, groups: Collection[str]) -> dict[str, bool]:
    """The groups among these that the target has; true for those with members there."""
    return {group: active for group, active in target.groups().items() if group in groups}


def differing(source: Entries, target: Entries, properties: ConfigPropertyFilter) -> list[str]:
    """The next sync's changes of settings, each in a few words; equal values are left out."""
    names = [change.name for change in changes(source, target, properties)]
    return [
        f"{name} is {_shown(source.get(name))} at the source and {_shown(target.get(name))} at the target"
        for name in names
        if value(source, name) != value(target, name)
    ]


def value(settings: Entries, name: str) -> str:
    """The value of a topic's setting, its own or the broker's; empty if unknown."""
    return (settings[name].value or "") if name in settings else ""


def _shown(setting: ConfigEntry | None) -> str:
    if setting is None:
        return "unknown"
    own = setting.source in (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    return f"{setting.value or 'empty'}{'' if own else ' by default'}"
