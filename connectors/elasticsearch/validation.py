"""Finds what a config contradicts, or asks for and is not served."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.config.settings import ConfigError, Problem
from headrace.connectors.elasticsearch.access import Access, secret
from headrace.connectors.elasticsearch.options import Flavour, Ids, Nulls, Policy, SinkOptions
from headrace.connectors.elasticsearch.parsing import SETTINGS, options

_DELETE = "behavior.on.null.values"


def problems(config: Mapping[str, str], flavour: Flavour, worker: Mapping[str, Any]) -> list[Problem]:
    """The problems beyond single settings; none if single settings are wrong."""
    if SETTINGS[flavour].problems(config):
        return []
    try:
        Access.of(config, flavour, worker).context()
        return list(_found(config, flavour, options(config, flavour)))
    except ConfigError as error:
        return list(error.problems)


def _found(config: Mapping[str, str], flavour: Flavour, of: SinkOptions) -> Iterator[Problem]:
    values = SETTINGS[flavour].parse(config)
    yield from _not_served(config, values)
    yield from _logins(config, values)
    policies = {"behavior.on.version.conflict": of.conflicts, "behavior.on.malformed.documents": of.malformed}
    for key, policy in policies.items():
        if policy is Policy.REPORT and not of.tells:
            what = "Nothing takes the reports."
            yield Problem(key, "report", what, "Set errors.tolerance=all and errors.deadletterqueue.topic.name.")
    yield from _datasets(values, of)
    if of.is_stream:
        yield from _streams(config, of)
    yield from _upserts(config, flavour, of)
    yield from _routing(config, of)
    yield from _resources(config, values, of)


def _datasets(values: Mapping[str, Any], of: SinkOptions) -> Iterator[Problem]:
    key = "data.stream.dataset"
    if key in values and of.stream is None and values[key]:
        yield Problem(key, values[key], "Without data.stream.type it has no effect.", "Set data.stream.type.")
    if key in values and of.stream is not None and not values[key]:
        yield Problem(key, "", "A data stream needs it.", "Set it, or data.stream.type=NONE.")


def _upserts(config: Mapping[str, str], flavour: Flavour, of: SinkOptions) -> Iterator[Problem]:
    if not of.upserts:
        return
    key = "write.method" if flavour is Flavour.CONFLUENT else "index.write.method"
    if Ids.SERVER in (of.ids, of.ids_without_key):
        yield Problem(key, config.get(key), "An upsert needs ids of its own.", "Use insert, or ids of the record.")
    elif flavour is Flavour.AIVEN_OPENSEARCH and of.ids is Ids.ORIGIN:
        what = "With key.ignore=true each record is a document of its own, which no upsert can change."
        yield Problem(key, config.get(key), what, "Set key.ignore.id.strategy=record.key, or use insert.")
    if of.version_header and not of.is_stream:
        what = "Upserts have no versions."
        yield Problem("external.version.header", of.version_header, what, "Remove it, or use insert.")


def _routing(config: Mapping[str, str], of: SinkOptions) -> Iterator[Problem]:
    if of.routing == "value" and not any(of.routing_path):
        key = "routing.type.record.value.path"
        yield Problem(key, config.get(key), "routing.type=value needs it.", "Set it to a field, such as /customer/id.")
    if of.routing == "value" and of.nulls is Nulls.DELETE:
        what = "A record without a value has no field that says where its document is."
        yield Problem(_DELETE, "delete", what, "Use routing.type=key, or behavior.on.null.values=ignore.")


def _resources(config: Mapping[str, str], values: Mapping[str, Any], of: SinkOptions) -> Iterator[Problem]:
    key, kind = _resource_keys(values)
    if not of.creates and not of.resources:
        yield Problem(key, config.get(key), "The existing resources of topics are not named.", "Set topic:resource.")
    if of.creates and values.get(key):
        yield Problem(key, config.get(key), f"Without {kind} it has no effect.", f"Set {kind}, or remove it.")
    if not of.creates and of.stream is not None:
        what = "Data streams cannot be made and be there at once."
        yield Problem(kind, config.get(kind), what, "Remove it, or the settings data.stream.*.")


def _resource_keys(values: Mapping[str, Any]) -> tuple[str, str]:
    """The settings of the resources of topics, and of their kind."""
    if "external.resource.usage" in values:
        return "topic.to.external.resource.mapping", "external.resource.usage"
    return "topic.to.existing.resource.mapping", "existing.resource.type"


def _streams(config: Mapping[str, str], of: SinkOptions) -> Iterator[Problem]:
    if of.nulls is Nulls.DELETE:
        what = "Nothing can be deleted from a data stream."
        yield Problem(_DELETE, "delete", what, "Use ignore or fail.")
    if of.upserts:
        key = next(one for one in ("write.method", "index.write.method") if one in config)
        yield Problem(key, config[key], "A data stream only takes new documents.", "Use insert.")
    if of.version_header:
        what = "Documents of a data stream have no versions of their own."
        yield Problem("external.version.header", of.version_header, what, "Remove it.")


def _not_served(config: Mapping[str, str], values: Mapping[str, Any]) -> Iterator[Problem]:
    for key in ("kerberos.user.principal", "kerberos.keytab.path"):
        if values.get(key):
            what = "Elasticsearch is not reached by Kerberos here."
            yield Problem(key, config[key], what, "Use connection.username and connection.password, or an API key.")
    for key in ("aws.sts.role.arn", "aws.sts.role.session.name", "aws.sts.role.external.id"):
        if values.get(key):
            what = "Roles are not assumed here."
            yield Problem(key, config[key], what, "Give the worker's machine the role, or set aws.access_key_id.")


def _logins(config: Mapping[str, str], values: Mapping[str, Any]) -> Iterator[Problem]:
    user, password = values["connection.username"], secret(values, "connection.password")
    if bool(user) != bool(password):
        key = "connection.password" if user else "connection.username"
        yield Problem(key, None, "A login needs both user and password.", "Set both, or neither.")
    if str(values.get("auth.type", "")).upper() == "API_KEY" and not secret(values, "api.key.value"):
        yield Problem("api.key.value", None, "auth.type=API_KEY needs it.", "Set it to the encoded key.")
    if values.get("aws.region") and user:
        what = "A request has one login: signatures by aws.*, or a user."
        yield Problem("connection.username", user, what, "Remove it, or aws.region.")
    if bool(secret(values, "aws.access_key_id")) != bool(secret(values, "aws.secret_access_key")):
        what = "An access key needs its secret."
        yield Problem("aws.secret_access_key", None, what, "Set both, or neither.")
