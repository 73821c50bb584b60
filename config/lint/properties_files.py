"""Judges the properties of workers and of MirrorMaker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final

from headrace.config.kafka.client_settings import ADMIN, CONSUMER, PRODUCER
from headrace.config.lint.finding import Finding, Rule, Said
from headrace.config.lint.rules import in_order
from headrace.config.lint.secret_rules import is_literal_secret, literal_secret, of_secret
from headrace.config.lint.settings_rules import invalid_setting, removed_setting, unknown_setting, useless_setting
from headrace.config.lint.view import ConnectorView, has_variable
from headrace.config.problems import ConfigError, Problem
from headrace.config.removed import WORKER
from headrace.config.settings import Settings, Type
from headrace.config.suggestions import nearest, question
from headrace.config.values import read
from headrace.config.worker import mirror_maker
from headrace.config.worker.config import WorkerConfig, removed_problems, unknown_properties
from headrace.config.worker.java_only import without_effect
from headrace.config.worker.listeners import parse_listeners
from headrace.config.worker.rest_tls import ALL_LISTENERS, HTTPS_PREFIXES, SERVER_SETTINGS
from headrace.config.worker.settings import DISTRIBUTED, STANDALONE

Lint = Callable[[Mapping[str, str]], Collection[Finding]]
_TYPED: Final = (Type.BOOLEAN, Type.INT, Type.SHORT, Type.LONG, Type.DOUBLE)
_CLIENTS: Final = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}


def worker_of(props: Mapping[str, str]) -> WorkerConfig:
    """The configuration of a worker's file, to judge connectors for it: no file that it names is opened.

    Variables stay in texts; a setting of another type that has one counts as not given. Errors: ConfigError.
    """
    settings = _settings(props)
    typed = {key for key in props if key in settings and settings[key].type in _TYPED and has_variable(props[key])}
    given = {key: value for key, value in props.items() if key not in typed}
    config = WorkerConfig(settings.parse(given), given, settings)
    config.override_policy()
    return config


def worker_findings(props: Mapping[str, str]) -> list[Finding]:
    """The findings about a worker's properties; no variable is resolved, and no file that they name is opened."""
    settings = _settings(props)
    found = [*_invalid([*settings.problems(props), *removed_problems(props), *_of_listeners(props)])]
    refused = {one.setting for one in found}
    useless = without_effect(settings, props)
    for key in unknown_properties(settings, props):
        if key in WORKER:
            said = Said(key, f"This setting has no effect: {WORKER[key].advice()}.", "Remove it.")
            found += [] if key in refused else [removed_setting.finding(said)]
        elif key not in useless:
            found.append(unknown_setting.finding(_unknown(key, (one.name for one in settings))))
    for key, instead in useless.items():
        found.append(useless_setting.finding(Said(key, f"This setting has no effect: {instead}.", "Remove it.")))
    declared = _declared(settings)
    found += [literal_secret.finding(of_secret(key)) for key in props if is_literal_secret(key, props[key], declared)]
    return in_order(found)


def mirror_findings(props: Mapping[str, str], connector_keys: Collection[str], lint: Lint) -> list[Finding]:
    """The findings about MirrorMaker's file; no others than of the process if `clusters` has a variable.

    `connector_keys`: all settings of its three connectors; `lint` judges a connector's config.
    """
    found = [*_invalid(mirror_maker.SETTINGS.problems(props))]
    if has_variable(props["clusters"]):
        return found
    aliases = list(dict.fromkeys(read("clusters", Type.LIST, props.get("clusters", ""))))
    problems: list[Problem] = []
    flows = mirror_maker.flows_of(props, props, aliases, connector_keys, problems)
    found += _invalid(problems)
    for key in mirror_maker.unheeded(props, aliases, connector_keys):
        found.append(unknown_setting.finding(_unknown(key, connector_keys)))
    for flow in flows:
        for config in flow.connectors.values():
            for one in lint(config):
                own = one.setting and flow.of_connector(Problem(one.setting, None, ""), props).key
                found.append(replace(one, setting=own))
    return in_order(dict.fromkeys(found))


def _of_listeners(props: Mapping[str, str]) -> Iterator[Problem]:
    for key in ALL_LISTENERS:
        try:
            parse_listeners(read(key, Type.LIST, props.get(key, "")), key)
        except ConfigError as error:
            yield from error.problems


def _invalid(problems: Collection[Problem]) -> Iterator[Finding]:
    rule: Rule[ConnectorView] = invalid_setting
    for problem in problems:
        if not has_variable(problem.value or ""):
            yield rule.finding(Said(problem.key, problem.message, problem.remedy))


def _unknown(key: str, known: Collection[str] | Iterator[str]) -> Said:
    meant = nearest(key, known)
    return Said(key, "Nothing reads this setting.", question(meant).strip() or "Mend its name, or remove it.")


def _settings(props: Mapping[str, str]) -> Settings:
    return DISTRIBUTED if "group.id" in props else STANDALONE


def _declared(settings: Settings) -> Settings:
    """All settings that a worker's file may have."""
    found = PRODUCER + CONSUMER + ADMIN + settings
    for client, own in _CLIENTS.items():
        found += own.prefixed(f"{client}.")
    for prefix in HTTPS_PREFIXES:
        found += SERVER_SETTINGS.prefixed(prefix)
    return found
