"""Problems of a source connector's config beyond single settings, found before it is created; no cluster is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.mirror.clients import MirrorClients
from headrace.connectors.mirror.filters import config_property_filter
from headrace.connectors.mirror.source.opposite_flow import OppositeFlow
from headrace.connectors.mirror.source.profile import is_wan
from headrace.connectors.mirror.source.selection import TopicSelection

_EMIT: Final = "emit.offset-syncs.enabled"
_CLIENTS: Final = (("source", "admin"), ("source", "consumer"), ("target", "admin"))


def source_problems(config: Mapping[str, str]) -> list[Problem]:
    """The problems, in Apache's words if Apache finds them, too."""
    problems = _of_filters(config) + MirrorClients(config).problems(*_CLIENTS)
    if config.get("exactly.once.support") == "required" and not reads_committed(config):
        message = (
            "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer is configured "
            "with isolation.level set to 'read_committed'; otherwise, records from aborted and uncommitted "
            "transactions will be replicated from the source cluster to the target cluster."
        )
        problems.append(Problem("exactly.once.support", "required", message))
    if config.get(_EMIT) == "false" and any(k.startswith(("offset-syncs-", "offset-syncs.topic.")) for k in config):
        message = f"MirrorSourceConnector can't setup offset-syncs feature while {_EMIT} set to false"
        problems.append(Problem(_EMIT, "false", message))
    return problems


def reads_committed(config: Mapping[str, str]) -> bool:
    """True if records of aborted and open transactions of the source are left out."""
    level = config.get("source.consumer.isolation.level", config.get("consumer.isolation.level"))
    return level == "read_committed"


def _of_filters(config: Mapping[str, str]) -> list[Problem]:
    checks: tuple[Callable[[], object], ...] = (
        lambda: OppositeFlow(config, TopicSelection(config)),
        lambda: config_property_filter(config),
        lambda: is_wan(config),
    )
    problems = []
    for check in checks:
        try:
            check()
        except ConfigError as error:
            problems += error.problems
    return problems
