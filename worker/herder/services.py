"""Parts of a worker that its herder uses, in either mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from headrace.worker.herder.topic_tracking import TopicTracking
from headrace.worker.hosting.measures import StartupCounter
from headrace.worker.hosting.ports import PluginCatalog, Tasks
from headrace.worker.preview.model import Previews
from headrace.worker.storage.history import ConnectorHistory
from headrace.worker.storage.statuses import StatusStore

if TYPE_CHECKING:  # they need Kafka's client
    from headrace.worker.herder.dead_letters import DeadLetters
    from headrace.worker.herder.offset_changes import OffsetChanges


class KafkaCluster(Protocol):
    """The worker's Kafka cluster."""

    @property
    def id(self) -> str | None:
        """The id of the Kafka cluster; None until it is known."""

    def away_seconds(self) -> float:
        """Probe the brokers: 0 if one answers, else the seconds since the first failed probe."""


@dataclass(frozen=True)
class HerderServices:
    """Parts of a herder; each is complete before the herder is made."""

    worker_id: str
    settings: Mapping[str, Any]
    """The worker's, parsed."""
    cluster: KafkaCluster
    plugins: PluginCatalog
    tasks: Tasks
    statuses: StatusStore
    topics: TopicTracking
    offset_changes: OffsetChanges
    connector_starts: StartupCounter
    """Counts the starts of connectors, for the metrics."""
    dead_letters: DeadLetters
    previews: Previews
    history: ConnectorHistory | None = None
    """The changes of connectors; None if they are not recorded."""
