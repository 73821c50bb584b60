"""Checks, before a worker joins its cluster, that it can run the cluster's connectors.

A Java leader places work on any worker; a connector that this one cannot run would fail here although it ran
elsewhere. So the worker does not join other workers, unless `join.obstacles=accept` allows it. A lone worker starts:
nothing is lost, such a connector is FAILED, and a worker is needed to delete it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from headrace.config.connector.config import unserved
from headrace.config.connector.enrichment import PluginLookup, version_key, version_objection
from headrace.config.connector.java_stage import split_chain
from headrace.config.connector.settings import CONVERTER_KINDS
from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Type
from headrace.config.values import read
from headrace.config.variables import UnresolvedError, Variables, variables_in
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.settings import TASKS_BOUND
from headrace.worker.model import Config

log = logging.getLogger(__name__)

EXACTLY_ONCE: Final = "exactly.once.source.support"

_KINDS: Final = {"transforms": "transformation", "predicates": "predicate"}


class _Need(NamedTuple):
    """A thing that connectors need and this worker lacks; connectors with equal needs are reported together."""

    key: str
    what: str
    message: str
    remedy: str


_FENCING: Final = _Need(
    "",
    "fencing records in the config topic",
    "The cluster runs sources exactly once, and this worker would not.",
    "Set exactly.once.source.support=enabled, or join.obstacles=accept if their exactly-once time is over.",
)


class Obstacles(NamedTuple):
    """Reasons that a worker cannot join its cluster."""

    always: list[Problem]
    """Reasons that count even for a lone worker."""
    beside_others: list[Problem]
    """Reasons that count only if there are other workers: they can run the work that this one would be given."""

    def __bool__(self) -> bool:
        return bool(self.always or self.beside_others)


def obstacles(
    connectors: Mapping[str, Config], fencing: Mapping[str, int], worker: WorkerConfig, plugins: PluginLookup
) -> Obstacles:
    """Find the obstacles to joining the cluster; with `join.obstacles=accept` those of the cluster are logged instead.

    `fencing` has the connectors with a fencing record, which only exactly-once sources get.
    """
    needs: dict[_Need, list[str]] = defaultdict(list)
    for name, config in sorted(connectors.items()):
        given = {key: value for key, value in config.items() if value is not None}
        for need in dict.fromkeys(_lacking(given, worker, plugins)):
            needs[need].append(name)
    found = [_problem(need, names) for need, names in needs.items()]
    fenced = sorted(fencing.keys() & connectors.keys())
    weaker = [_problem(_FENCING, fenced)] if fenced and worker.exactly_once == "disabled" else []
    own = _own(worker, plugins)
    if worker["join.obstacles"] != "accept":
        return Obstacles([*own, *weaker], found)
    for problem in [*found, *weaker]:
        log.warning("This worker joins the cluster in spite of this, because of join.obstacles=accept: %s", problem)
    return Obstacles(own, [])


def _own(worker: WorkerConfig, plugins: PluginLookup) -> list[Problem]:
    found = []
    for kind, key, name in _converters(worker.originals):
        if text := _unknown(plugins, kind, name, None):
            found.append(Problem(key, name, text, "Choose a converter that is installed here, or install this one."))
    return found


def _lacking(raw: Mapping[str, str], worker: WorkerConfig, plugins: PluginLookup) -> Iterator[_Need]:
    variables = worker.variables
    yield from _unknown_providers(raw, variables)
    try:
        config = variables.resolve(raw)
    except UnresolvedError as error:
        for problem in error.problems:
            remedy = f"{problem.remedy} It must be there on every worker."
            yield _Need(problem.key, problem.value or "", problem.message, remedy.strip())
        config = dict(raw)
    later = {problem.key: problem for problem in unserved(config)}
    for problem in later.values():
        yield _Need(problem.key, "", problem.message, "Keep such connectors on Java workers for now.")
    for kind, key, name in _classes(config):
        version = config.get(version_key(key))
        if key.partition(".")[0] not in later and (text := _unknown(plugins, kind, name, version)):
            remedy = "Install its plugin here, or put it on plugin.path; join.obstacles=accept joins without it."
            yield _Need(key, name, text, remedy)
    wanted, most = config.get("tasks.max", "").strip(), worker[TASKS_BOUND.name]
    if wanted.isdecimal() and int(wanted) > most:
        remedy = f"Raise {TASKS_BOUND.name} of this worker, or lower tasks.max."
        yield _Need("tasks.max", wanted, f"This worker allows a connector {most} tasks.", remedy)
    for problem in _not_in_java(config, worker, plugins):
        yield _Need(problem.key, problem.value or "", problem.message, "Keep such connectors on Java workers.")


def _not_in_java(config: Mapping[str, str], worker: WorkerConfig, plugins: PluginLookup) -> Sequence[Problem]:
    try:
        connector = plugins.find("connector", config.get("connector.class", "").strip())
    except ConfigError:
        return ()  # reported already
    return split_chain(connector, config, plugins, worker.originals).problems


def _classes(config: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield kind, key and name of each class that a connector's config names."""
    yield "connector", "connector.class", config.get("connector.class", "")
    yield from _converters(config)
    for key, kind in _KINDS.items():
        for alias in dict.fromkeys(read(key, Type.LIST, config.get(key, ""))):
            yield kind, f"{key}.{alias}.type", config.get(f"{key}.{alias}.type", "")


def _converters(config: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for side in CONVERTER_KINDS:
        if name := config.get(f"{side}.converter"):
            yield "header_converter" if side == "header" else "converter", f"{side}.converter", name


def _unknown(plugins: PluginLookup, kind: str, name: str, version: str | None) -> str | None:
    try:
        found = plugins.find(kind, name.strip())
    except ConfigError:
        return f"No {kind.replace('_', ' ')} of this class is installed on this worker."
    return version_objection(plugins, found, version)


def _unknown_providers(raw: Mapping[str, str], variables: Variables) -> Iterator[_Need]:
    for value in raw.values():
        for variable in variables_in(value):
            if variable.provider not in variables.providers:
                yield _Need(
                    "config.providers",
                    variable.provider,
                    "Configs have variables of this provider, which this worker does not have.",
                    f"Set config.providers.{variable.provider}.class as on the other workers; if it is no variable, "
                    "set join.obstacles=accept.",
                )


def _problem(need: _Need, connectors: Collection[str]) -> Problem:
    message = f"{need.message} Connectors that need it: {', '.join(connectors)}"
    return Problem(need.key or EXACTLY_ONCE, need.what or None, message, need.remedy)
