from __future__ import annotations

from confluent_kafka import KafkaError

from headrace.config.kafka.client_failures import ClientFailures


def test_only_refusals_are_heard_and_from_their_first_on() -> None:
    now = 1.0
    failures = ClientFailures(lambda: now)
    failures(KafkaError(KafkaError._TRANSPORT, "connection refused"))
    assert failures.seconds is None
    failures(KafkaError(KafkaError._SSL, "SSL handshake failed: Disconnected"))
    assert failures.certificate is None, "the network's, not a certificate's"
    now = 4.0
    failures(KafkaError(KafkaError._AUTHENTICATION, "wrong"))
    assert (failures.seconds, failures.login) == (3.0, "wrong")
    failures.clear()
    assert (failures.seconds, failures.login) == (None, None)
