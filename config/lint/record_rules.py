"""Rules about records: those that fail, and values without schema."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headrace.config.lint.finding import Said, Severity, rule
from headrace.config.lint.view import FAILED_RECORDS, ConnectorView
from headrace.config.problems import ConfigError

_DEAD_LETTERS: Final = FAILED_RECORDS[0]
_CONTEXT: Final = "errors.deadletterqueue.context.headers.enable"
_TOLERANCE: Final = "errors.tolerance"
_KEEP_SCHEMALESS: Final = "org.apache.kafka.connect.transforms."
"""Beginning of the classes of transforms that give no schema to a value without one."""


@rule("tolerance-without-dead-letters", Severity.WARNING, "Records that fail are left out, and nothing keeps them.")
def tolerance_without_dead_letters(view: ConnectorView) -> Iterator[Said]:
    """`errors.tolerance=all` without a dead letter topic."""
    if view.text(_TOLERANCE) == "all" and not view.config.get(_DEAD_LETTERS, "").strip():
        advice = f"Set {_DEAD_LETTERS} to a topic that keeps them."
        yield Said(_TOLERANCE, "Records that fail are left out, and nothing keeps them.", advice)


@rule("dead-letters-and-failure", Severity.NOTE, "A dead letter topic, although a record that fails ends its task.")
def dead_letters_and_failure(view: ConnectorView) -> Iterator[Said]:
    """Dead letters with `errors.tolerance=none`."""
    tolerant = view.text(_TOLERANCE) == "all" or view.has_variable(_TOLERANCE)
    if _DEAD_LETTERS in view.failed_records and not tolerant:
        message = "A record that fails gets its dead letter, and then fails its task: errors.tolerance is none."
        yield Said(_DEAD_LETTERS, message, "Set errors.tolerance=all if the task is to go on.")


@rule("dead-letters-without-context", Severity.NOTE, "Dead letters that do not say what was wrong with them.")
def dead_letters_without_context(view: ConnectorView) -> Iterator[Said]:
    """Dead letters without the headers that say where they came from and what was wrong."""
    if _DEAD_LETTERS in view.failed_records and not view.is_on(_CONTEXT) and not view.has_variable(_CONTEXT):
        message = "Dead letters do not say where they came from and what was wrong; a replay needs that."
        yield Said(_DEAD_LETTERS, message, f"Set {_CONTEXT}=true.")


@rule("dead-letters-read", Severity.WARNING, "A sink whose regular expression takes in topics of failed records.")
def dead_letters_read(view: ConnectorView) -> Iterator[Said]:
    """Topics of other connectors' failed records that `topics.regex` matches; `topics` names what is meant."""
    if not view.text("topics.regex"):
        return
    topics = {topic: name for name, failed in view.others_failed() for topic in failed}
    for topic in view.reads(topics):
        yield Said(
            "topics.regex",
            f"It matches {topic}, which keeps the failed records of the connector {topics[topic]}.",
            "Exclude the topic, as in (?!.*-dlq$)orders.*, or give it a name that the expression does not match.",
        )


@rule("schemaless-value", Severity.WARNING, "Values without schema for a sink that works by their schemas.")
def schemaless_value(view: ConnectorView) -> Iterator[Said]:
    """`JsonConverter` without schemas beside a sink whose settings need them."""
    if view.kind != "sink" or view.connector is None or not _is_schemaless(view):
        return
    try:
        needing = view.connector.needs_schema(view.plain)
    except ConfigError:  # validation refuses the config, or a setting that is needed has a variable
        return
    if needing:
        yield Said(
            needing,
            "It works by the schemas of values, and JsonConverter with schemas.enable=false gives none.",
            "Use a converter with schemas, such as AvroConverter, or JSON documents with schema and payload.",
        )


def _is_schemaless(view: ConnectorView) -> bool:
    found = view.value_converter()
    if found is None or found[0].rpartition(".")[2] != "JsonConverter":
        return False
    types = [view.text(f"transforms.{alias}.type") for alias in view.items("transforms")]
    keeps = all(one.startswith(_KEEP_SCHEMALESS) for one in types) and not view.has_variable("transforms")
    return keeps and found[1].get("schemas.enable", "true").strip().lower() == "false"
