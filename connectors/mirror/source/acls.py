"""Copies ACLs of topics to the remote topics: readers of the source may read the copy, and nobody may write it.

As in MirrorMaker only ACLs of single topics (LITERAL, also that of `*`) are copied, ALLOW WRITE is left out, ALLOW ALL
becomes ALLOW READ, and nothing is ever deleted on the target.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from headrace.connectors.mirror.source.cluster import ClusterAdmin
from headrace.connectors.mirror.source.selection import TopicSelection

log = logging.getLogger(__name__)


def remote_acls(bindings: Iterable[AclBinding], selection: TopicSelection) -> list[AclBinding]:
    """The ACLs of remote topics that follow from these of the source."""
    found: dict[AclBinding, None] = {}
    for acl in bindings:
        allows = acl.permission_type == AclPermissionType.ALLOW
        of_one_topic = acl.restype == ResourceType.TOPIC and acl.resource_pattern_type == ResourcePatternType.LITERAL
        if not of_one_topic or (allows and acl.operation == AclOperation.WRITE) or not selection.replicates(acl.name):
            continue
        operation = AclOperation.READ if allows and acl.operation == AclOperation.ALL else acl.operation
        name, pattern = selection.remote(acl.name), ResourcePatternType.LITERAL
        copy = AclBinding(ResourceType.TOPIC, name, pattern, acl.principal, acl.host, operation, acl.permission_type)
        found[copy] = None
    return list(found)


class AclSync:
    """Copies the ACLs; remembers the copied ones, so that each is logged once."""

    def __init__(self, source: ClusterAdmin, target: ClusterAdmin, selection: TopicSelection) -> None:
        self._source = source
        self._target = target
        self._selection = selection
        self._copied: set[AclBinding] = set()
        self._told = False

    def run(self) -> None:
        """Create the missing ACLs on the target. Errors: KafkaException, StoppedError."""
        try:
            bindings = self._source.acls()
        except KafkaException as raised:
            if raised.args[0].code() != KafkaError.SECURITY_DISABLED:
                raise
            if not self._told:
                self._told = True
                log.info(
                    "Cluster %s has no authorizer, so there are no ACLs of topics to copy; "
                    "sync.topic.acls.enabled=false spares the requests",
                    self._source.alias,
                )
            return
        if not (wanted := remote_acls(bindings, self._selection)):
            return
        for acl, error in self._target.create_acls(wanted).items():
            shown = f"{_name(acl.permission_type)} {_name(acl.operation)} for {acl.principal} from {acl.host}"
            if error is not None:
                log.warning("The ACL %s cannot be set for topic %s on %s: %s. %s", *self._failed(acl, shown, error))
            elif acl not in self._copied:
                self._copied.add(acl)
                log.info("Topic %s on %s has the ACL %s", acl.name, self._target.alias, shown)

    def _failed(self, acl: AclBinding, shown: str, error: KafkaError) -> tuple[str, str, str, str, str]:
        remedy = "Allow this connector's user ALTER on that cluster, or set sync.topic.acls.enabled=false"
        if error.code() == KafkaError.SECURITY_DISABLED:
            remedy = "That cluster has no authorizer: set sync.topic.acls.enabled=false"
        return shown, acl.name, self._target.alias, error.str(), remedy


def _name(value: object) -> str:
    return str(getattr(value, "name", value))
