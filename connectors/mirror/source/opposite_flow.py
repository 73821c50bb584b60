"""Keeps records from going round for ever if a policy keeps topics' names.

With `DefaultReplicationPolicy` a name tells that a topic came from the target, which stops it. With a policy that keeps
names, a topic that A->B and B->A both copy is copied round and round.

- `opposite.flow.topics` (and `.exclude`) of A->B names the topics that B->A copies: these are left out here. In the
file of a dedicated process it is `A->B.opposite.flow.topics`.
- Without it nothing is copied as long as there is a sign of the opposite flow: its offset-syncs topic, which each flow,
Apache's too, creates when it starts. A flow looks for the other's sign before and after it creates its own, so that of
two that start at once one sees the other at least.

Decided: by a sign and a setting, because a mark in each record would change records, and offset syncs tell of a topic
only after it was copied; loses: a user who copies different topics both ways, or back after a move, has to say so;
flows that call one cluster by different aliases, have different `offset-syncs.topic.location`, or form a ring of three
clusters do not see each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError

from headrace.config.problems import ConfigError, Problem
from headrace.config.values import Type, read
from headrace.connectors.mirror.filters import NameExpressions, NameFilter
from headrace.connectors.mirror.settings import SOURCE
from headrace.connectors.mirror.source.cluster import ClusterAdmin
from headrace.connectors.mirror.source.selection import TopicSelection

TOPICS: Final = "opposite.flow.topics"
EXCLUDED: Final = "opposite.flow.topics.exclude"
_ANY: Final = "any-topic"


class OppositeFlow:
    """The flow from this flow's target to its source, as far as it is known."""

    def __init__(self, config: Mapping[str, str], selection: TopicSelection) -> None:
        """Errors: ConfigError."""
        self._selection = selection
        self._source, self._target = (
            SOURCE[f"{side}.cluster.alias"].judge(config).value for side in ("source", "target")
        )
        self._at_source = SOURCE["offset-syncs.topic.location"].judge(config).value == "source"
        self._copied = _declared(config)

    @property
    def watched(self) -> bool:
        """True if a sign of the opposite flow stops this one: names are kept, and no setting names its topics."""
        return self._copied is None and self._selection.keeps_name(_ANY)

    def copies_back(self, topic: str) -> bool:
        """True if, by the settings, the opposite flow copies this topic back, under the same name."""
        return self._copied is not None and self._selection.keeps_name(topic) and self._copied.passes(topic)

    def refusal(self, source: ClusterAdmin, target: ClusterAdmin) -> ConfigError | None:
        """The reason why nothing may be copied; None if there is no sign of the opposite flow.

        Errors: KafkaException, StoppedError.
        """
        if not self._selection.keeps_name(_ANY):
            return None
        if source.listed()[0] == target.listed()[0]:
            message = f"{self._source} and {self._target} are one cluster, and topics would be copied onto themselves."
            key = "target.cluster.bootstrap.servers"
            return ConfigError(Problem(key, None, message, "Correct the servers of one of them."))
        if not self.watched:
            return None
        opposite = f"{self._target}->{self._source}"
        place = target if self._at_source else source
        sign = self._selection.policy.offset_syncs_topic(self._source if self._at_source else self._target)
        found = place.topics([sign]).get(sign)
        if found is None:
            return None
        seen = "cannot be looked for" if isinstance(found, KafkaError) else "is there"
        message = (
            f"Topics keep their names, and the topic {sign} {seen} on {place.alias}: the flow {opposite} may copy the "
            "same topics back, round and round. Nothing is copied."
        )
        remedy = (
            f"Set {TOPICS} to the topics that {opposite} copies (names and regular expressions, empty if it copies "
            "none any more); they are left out here. Or use DefaultReplicationPolicy for both flows."
        )
        return ConfigError(Problem(TOPICS, None, message, remedy))


def _declared(config: Mapping[str, str]) -> NameFilter | None:
    if TOPICS not in config:
        return None
    patterns = (NameExpressions(key, read(key, Type.LIST, config.get(key, ""))) for key in (TOPICS, EXCLUDED))
    return NameFilter(*patterns)
