"""Refuses names in Kafka that belong to other connectors or the workers: groups, client ids and transactional ids.

A second member takes half of a group's records, and may empty its offsets. Quotas and logs go by client ids.

Decided: every group `connect-<name>` belongs to that connector even if it does not exist, because it may be created
later and would start at the group's offsets; loses: `connect-<name>-v2` for a new start, and the group of a connector's
former name, are for trusted connectors only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from headrace.config.connector.config import sink_group
from headrace.config.problems import Problem
from headrace.config.values import trimmed
from headrace.config.worker.trusted import REMEDY, is_trusted

_OF_WORKERS: Final = ("configs", "configs-leader", "offsets", "statuses", "shared-admin")
"""Ends of the client ids of a worker's own clients, after its group."""
_OF_CONNECTORS: Final = re.compile(
    r"connector-(?:(?:dlq-|offset-)?producer|(?:dlq-)?consumer|(?:dlq-|worker-)?adminclient)-(?P<connector>.*)",
    re.DOTALL,
)
_OF_MEMBERS: Final = re.compile(r"connect-.*:\d+")
_BROKERS_ADMIN: Final = "__admin_client"
"""The client id that brokers allow to write to Kafka's internal topics."""


def foreign_names(given: Mapping[str, str], connector: str, settings: Mapping[str, Any]) -> list[Problem]:
    """Problems of foreign names in a connector's overrides, by the clients' keys; `settings`: the worker's, parsed."""
    given, found = {key: trimmed(value) for key, value in given.items()}, []
    if (objection := group_objection(given.get("group.id", ""), connector, settings)) is not None:
        found.append(Problem("group.id", given["group.id"], objection))
    if is_trusted(connector, settings):
        return found
    for key, is_anothers in (("client.id", _is_anothers_client), ("transactional.id", _is_anothers_transaction)):
        if is_anothers(name := given.get(key, ""), connector, settings.get("group.id") or ""):
            why = f"{name} is the {key} of another connector or of the workers. Name another one; {REMEDY}"
            found.append(Problem(key, name, why))
    return found


def group_objection(group: str, connector: str, settings: Mapping[str, Any]) -> str | None:
    """The reason that this connector may not use a consumer group; None if it may."""
    workers = settings.get("group.id")
    if workers and group == workers:
        return f"Consumer group {group} conflicts with Connect worker group {workers}"
    is_anothers = group.startswith(sink_group("")) and group != sink_group(connector)
    if is_anothers and not is_trusted(connector, settings):
        return f"{group} is the consumer group of another connector. Name another one; {REMEDY}"
    return None


def _is_anothers_client(client: str, connector: str, workers: str) -> bool:
    if found := _OF_CONNECTORS.fullmatch(client):
        return not _is_of(connector, found["connector"])
    is_workers = bool(workers) and client.startswith(f"{workers}-") and client.endswith(_OF_WORKERS)
    return is_workers or client == _BROKERS_ADMIN or _OF_MEMBERS.fullmatch(client) is not None


def _is_anothers_transaction(name: str, connector: str, workers: str) -> bool:
    if not workers or name == f"connect-cluster-{workers}":
        return bool(workers)
    return name.startswith(f"{workers}-") and not _is_of(connector, name.removeprefix(f"{workers}-"))


def _is_of(connector: str, name: str) -> bool:
    """True if the name is the connector's, with or without a task's number."""
    return re.fullmatch(rf"{re.escape(connector)}(-\d+)?", name) is not None
