"""The consumer groups that sinks name themselves (`consumer.override.group.id`): one group for one connector.

Default groups, `connect-<name>`, are checked without the other connectors (`config/connector/foreign_names.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.config.values import trimmed
from headrace.config.variables import UnresolvedError, Variables
from headrace.config.worker.overrides import PREFIXES
from headrace.config.worker.trusted import REMEDY, is_trusted
from headrace.worker.errors import BadRequest
from headrace.worker.hosting.ports import PluginCatalog
from headrace.worker.model import Config

_GROUP: Final = f"{PREFIXES['consumer']}group.id"


def check_own_group(name: str, config: Config, connectors: Mapping[str, Config], plugins: PluginCatalog) -> None:
    """Refuse a config with the consumer group of another of these connectors, unless `name` is trusted.

    Errors: BadRequest.
    """
    group = _group(config, plugins.variables)
    if group is None or is_trusted(name, plugins.worker):
        return
    if any(_group(one, plugins.variables) == group for other, one in connectors.items() if other != name):
        raise BadRequest(f"{_GROUP}: {group} is the consumer group of another connector. Name another one; {REMEDY}")


def _group(config: Config, variables: Variables) -> str | None:
    given = config.get(_GROUP)
    try:
        return None if given is None else trimmed(variables.resolve({_GROUP: given})[_GROUP])
    except UnresolvedError:  # the connector cannot start with it either
        return None
