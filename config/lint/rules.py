"""All rules about connectors."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from headrace.config.lint import cluster_rules, record_rules, secret_rules, settings_rules
from headrace.config.lint.finding import Finding, Rule, Said, Severity, rule
from headrace.config.lint.view import ConnectorView


@rule("unknown-plugin", Severity.ERROR, "A connector class that is not installed, or cannot be loaded.")
def unknown_plugin(_: ConnectorView) -> Iterator[Said]:
    """Nothing: the linter finds it before there is a view."""
    return iter(())


RULES: Final[tuple[Rule[ConnectorView], ...]] = (
    unknown_plugin,
    settings_rules.invalid_setting,
    settings_rules.unknown_setting,
    settings_rules.removed_setting,
    settings_rules.deprecated_setting,
    settings_rules.useless_setting,
    settings_rules.unused_predicate,
    settings_rules.impossible_topic,
    settings_rules.plugin_advice,
    secret_rules.literal_secret,
    secret_rules.blank_around_secret,
    secret_rules.unresolved_variable,
    record_rules.tolerance_without_dead_letters,
    record_rules.dead_letters_and_failure,
    record_rules.dead_letters_without_context,
    record_rules.dead_letters_read,
    record_rules.schemaless_value,
    cluster_rules.shared_group,
    cluster_rules.missing_topic,
    cluster_rules.regex_matches_nothing,
    cluster_rules.tasks_over_partitions,
    cluster_rules.tasks_over_source,
    cluster_rules.replication_over_brokers,
    cluster_rules.cluster_not_asked,
)
"""In the order of findings of one severity."""


def judged(view: ConnectorView) -> list[Finding]:
    """The findings about a connector, grave ones first."""
    return in_order(finding for one in RULES for finding in one.findings(view))


def in_order(findings: Collection[Finding] | Iterator[Finding]) -> list[Finding]:
    """The findings, grave ones first."""
    grave = list(Severity)
    return sorted(findings, key=lambda one: grave.index(one.severity))
