from __future__ import annotations

from confluent_kafka import KafkaError

from headrace.worker.kafka.rights import said


def test_a_refusal_names_the_acl_that_is_missing() -> None:
    refused = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert said(refused, "Write", ["b", "a"]).endswith("; grant its user the ACL Write on Topic 'a', 'b'")
    assert said(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED), "Read", ["g"]).endswith("ACL Read on Group 'g'")
    away = KafkaError(KafkaError._TRANSPORT)
    assert said(away, "Read", ["a"]) == away.str()
