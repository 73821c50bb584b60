"""Rules about settings: refused, unknown, removed, deprecated and useless ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.config.connector.topic_creation import GROUPS, of_unnamed_groups
from headrace.config.connector.topic_creation import PREFIX as TOPIC_CREATION
from headrace.config.kafka.client_config import SETTINGS, without_counterpart
from headrace.config.kafka.topic_names import is_allowed
from headrace.config.lint.finding import Said, Severity, rule
from headrace.config.lint.view import FAILED_RECORDS, ConnectorView
from headrace.config.problems import ConfigError
from headrace.config.suggestions import nearest
from headrace.config.worker.overrides import PREFIXES, overrides

_DEAD_LETTERS: Final = FAILED_RECORDS[0]


@rule("invalid-setting", Severity.ERROR, "A setting that the connector's validation refuses, or that is missing.")
def invalid_setting(view: ConnectorView) -> Iterator[Said]:
    """The first problem of each setting: after an unreadable value Connect reports a null, too."""
    for problem in {one.key: one for one in reversed(view.problems)}.values():
        yield Said(problem.key, problem.message, problem.remedy)


@rule(
    "unknown-setting",
    Severity.WARNING,
    "A setting that nothing reads: misspelt, or of a transform, predicate or converter that the config does not name.",
)
def unknown_setting(view: ConnectorView) -> Iterator[Said]:
    """Unread settings, and overrides that no Kafka client knows."""
    for one in view.unread:
        if one.key not in view.removed:
            yield Said(one.key, f"Nothing reads this setting: {one.advice}", "Mend its name, or remove it.")
    for kind, prefix in PREFIXES.items():
        for key in overrides(kind, view.config):
            if key not in SETTINGS[kind]:
                meant = nearest(key, (setting.name for setting in SETTINGS[kind]))
                advice = f"Did you mean {prefix}{meant}?" if meant else "Remove it."
                yield Said(prefix + key, f"Kafka's {kind} has no setting {key}.", advice)


@rule("removed-setting", Severity.WARNING, "A setting that only former versions of the plugin had.")
def removed_setting(view: ConnectorView) -> Iterator[Said]:
    """Removed settings, less those that validation refuses because they kept data back."""
    refused = {problem.key for problem in view.problems}
    for key, one in view.removed.items():
        if key not in refused:
            yield Said(key, f"This setting has no effect: {one.advice}.", "Remove it.")


@rule("deprecated-setting", Severity.WARNING, "A setting that a later version will not have.")
def deprecated_setting(view: ConnectorView) -> Iterator[Said]:
    """Settings that are declared deprecated and do not have their default."""
    for key in view.config:
        if key in view.declared and view.declared[key].deprecated and not _is_default(view, key):
            yield Said(key, "This setting is deprecated.", view.declared[key].deprecated)


@rule("useless-setting", Severity.WARNING, "A setting that has no effect beside the others.")
def useless_setting(view: ConnectorView) -> Iterator[Said]:
    """Settings without effect that do not have their default."""
    for said in (*_of_failed_records(view), *_of_transactions(view), *_of_topic_creation(view), *_of_clients(view)):
        if said.setting is not None and not view.has_variable(said.setting) and not _is_default(view, said.setting):
            yield said


@rule("unused-predicate", Severity.WARNING, "A predicate that no transform names.")
def unused_predicate(view: ConnectorView) -> Iterator[Said]:
    """Aliases of `predicates` that no transform of the chain uses."""
    naming = [f"transforms.{alias}.predicate" for alias in view.items("transforms")]
    if any(view.has_variable(key) for key in ("transforms", *naming)):
        return
    used = {view.text(key) for key in naming}
    for alias in view.items("predicates"):
        if alias not in used:
            yield Said(
                "predicates",
                f"No transform uses the predicate {alias}, so that its transform applies to all records.",
                f"Set transforms.<alias>.predicate={alias} of a transform, or remove {alias} and its settings.",
            )


@rule("impossible-topic", Severity.ERROR, "A name that no topic can have, such as a regular expression in `topics`.")
def impossible_topic(view: ConnectorView) -> Iterator[Said]:
    """Names of a sink's topics, and of those for failed records, that Kafka does not allow."""
    named = [("topics", topic) for topic in view.items("topics")] if view.kind == "sink" else []
    for key, topic in (*named, *view.failed_records.items()):
        if not is_allowed(topic):
            advice = "A regular expression belongs into topics.regex." if key == "topics" else "Mend the name."
            yield Said(key, f"Kafka allows no topic {topic}.", advice)


@rule("plugin-advice", Severity.NOTE, "What the connector itself has to say about its config.")
def plugin_advice(view: ConnectorView) -> Iterator[Said]:
    """The advice of the connector's class, if each setting is right."""
    if view.connector is None or view.problems:
        return
    try:
        for problem in view.connector.advise(view.plain):
            yield Said(problem.key, problem.message, problem.remedy)
    except ConfigError:  # a setting that is needed has a variable
        return


def _is_default(view: ConnectorView, key: str) -> bool:
    if key not in view.declared:
        return False
    setting = view.declared[key]
    return not setting.required and setting.judge(view.config).value == setting.default


def _of_failed_records(view: ConnectorView) -> Iterator[Said]:
    if _DEAD_LETTERS not in view.failed_records and not view.has_variable(_DEAD_LETTERS):
        for key in view.config:
            if key.startswith("errors.deadletterqueue.") and key != _DEAD_LETTERS:
                yield Said(key, "There is no dead letter topic.", f"Set {_DEAD_LETTERS}, or remove it.")
    delay, timeout = "errors.retry.delay.max.ms", "errors.retry.timeout"
    if delay in view.config and view.text(timeout) in ("", "0") and not view.has_variable(timeout):
        yield Said(delay, f"Nothing is tried again: {timeout} is 0.", f"Set {timeout} to milliseconds, or to -1.")
    places, logs = "errors.log.include.messages", "errors.log.enable"
    if places in view.config and not view.is_on(logs) and not view.has_variable(logs):
        yield Said(places, f"Errors are not logged: {logs} is false.", f"Set {logs}=true, or remove it.")


def _of_transactions(view: ConnectorView) -> Iterator[Said]:
    interval = "transaction.boundary.interval.ms"
    boundary = view.text("transaction.boundary").lower()
    if interval in view.config and boundary != "interval" and not view.has_variable("transaction.boundary"):
        advice = "Set transaction.boundary=interval, or remove it."
        yield Said(interval, "It counts only beside transaction.boundary=interval.", advice)


def _of_topic_creation(view: ConnectorView) -> Iterator[Said]:
    if view.kind == "sink":
        for key in view.config:
            if key.startswith(TOPIC_CREATION):
                yield Said(key, "A sink creates no such topics.", "Remove it.")
    elif not view.has_variable(GROUPS):
        for key in of_unnamed_groups(view.config):
            yield Said(key, f"{GROUPS} names no group of this name.", f"Add the group to {GROUPS}, or remove it.")


def _of_clients(view: ConnectorView) -> Iterator[Said]:
    """Overrides of clients that the connector does not have, and those that the Kafka library does not serve."""
    lacking: dict[str, str] = {}
    if view.kind == "sink" and not any(view.config.get(key) for key in FAILED_RECORDS):
        lacking["producer"] = "This sink has no producer without a topic of failed records."
    worker = view.around.worker
    if view.kind == "source" and worker is not None and worker.exactly_once == "disabled":
        lacking["consumer"] = "This source has no consumer."
    for kind, prefix in PREFIXES.items():
        given = overrides(kind, view.config)
        for key in given if kind in lacking else ():
            yield Said(prefix + key, lacking[kind], "Remove it.")
        for key in () if kind in lacking else without_counterpart(kind, given):
            yield Said(prefix + key, "The Kafka library within this worker has no such setting.", "Remove it.")
