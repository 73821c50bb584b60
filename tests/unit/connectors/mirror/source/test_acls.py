"""The ACLs that are copied, and the forms of their copies."""

from __future__ import annotations

import logging
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from headrace.connectors.mirror.source.acls import AclSync, remote_acls
from headrace.connectors.mirror.source.selection import TopicSelection
from tests.unit.connectors.mirror.source.clusters import FakeCluster

SELECTION: Final = TopicSelection({"source.cluster.alias": "A", "target.cluster.alias": "B", "topics": "orders,\\*"})
READ, WRITE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.ALL
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL: Final = ResourcePatternType.LITERAL


def acl(topic: str, operation: Any, permission: Any = ALLOW, pattern: Any = LITERAL) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, topic, pattern, "User:ann", "*", operation, permission)


@pytest.mark.parametrize(
    ("given", "copy"),
    [
        (acl("orders", READ), acl("A.orders", READ)),
        (acl("orders", ALL), acl("A.orders", READ)),
        (acl("orders", WRITE), None),
        (acl("orders", WRITE, DENY), acl("A.orders", WRITE, DENY)),
        (acl("orders", ALL, DENY), acl("A.orders", ALL, DENY)),
        (acl("orders", READ, pattern=ResourcePatternType.PREFIXED), None),
        (acl("payments", READ), None),
        (acl("*", READ), acl("A.*", READ)),
    ],
)
def test_readers_of_a_topic_may_read_its_copy_and_nobody_may_write_it(
    given: AclBinding, copy: AclBinding | None
) -> None:
    assert remote_acls([given], SELECTION) == ([] if copy is None else [copy])


def sync_of(source: Any, target: Any) -> AclSync:
    return AclSync(source, target, SELECTION)


def test_each_acl_is_created_at_every_sync_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    source, target = FakeCluster("A"), FakeCluster("B")
    source.bindings = [acl("orders", READ), acl("orders", ALL)]
    sync = sync_of(source, target)
    sync.run()
    sync.run()
    assert target.new_bindings == [acl("A.orders", READ)] * 2
    assert caplog.text.count("Topic A.orders on B has the ACL ALLOW READ for User:ann from *") == 1


def test_a_cluster_without_authorizer_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    source = FakeCluster("A")
    source.bindings = KafkaException(KafkaError(KafkaError.SECURITY_DISABLED))
    sync = sync_of(source, FakeCluster("B"))
    sync.run()
    sync.run()
    assert caplog.text.count("Cluster A has no authorizer") == 1
