"""Table of Kafka's Java client settings with their counterparts in other clients.

`PASSED` has their names in librdkafka and kafka-python. Settings that need more than another name (TLS, SASL,
partitioners, time limits) are translated in `client_security.py` and `client_config.py`. Any other setting has no
counterpart; it is reported once, unless it has Java's default.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace.config.kafka import msk_iam
from headrace.config.kafka.client_oauth import JWT_BEARER_RETRIEVER


class Passed(NamedTuple):
    """Names in other libraries, None if unknown there; values are passed unchanged between `least` and `most`."""

    librdkafka: str | None
    kafka_python: str | None = None
    least: int | None = None
    most: int | None = None


_SHARED: Final = {
    "bootstrap.servers": Passed("bootstrap.servers", "bootstrap_servers"),
    "client.id": Passed("client.id", "client_id"),
    "client.dns.lookup": Passed("client.dns.lookup", "client_dns_lookup"),
    "send.buffer.bytes": Passed("socket.send.buffer.bytes", "send_buffer_bytes", 0, 100_000_000),
    "receive.buffer.bytes": Passed("socket.receive.buffer.bytes", "receive_buffer_bytes", 0, 100_000_000),
    "reconnect.backoff.ms": Passed("reconnect.backoff.ms", "reconnect_backoff_ms", 0, 3_600_000),
    "reconnect.backoff.max.ms": Passed("reconnect.backoff.max.ms", "reconnect_backoff_max_ms", 0, 3_600_000),
    "retry.backoff.ms": Passed("retry.backoff.ms", "retry_backoff_ms", 1, 300_000),
    "retry.backoff.max.ms": Passed("retry.backoff.max.ms", None, 1, 300_000),
    "request.timeout.ms": Passed("socket.timeout.ms", "request_timeout_ms", 10, 300_000),
    "metadata.max.age.ms": Passed("topic.metadata.refresh.interval.ms", "metadata_max_age_ms", 1, 3_600_000),
    "socket.connection.setup.timeout.ms": Passed(
        "socket.connection.setup.timeout.ms", "socket_connection_setup_timeout_ms", 1000, 2**31 - 1
    ),
    "connections.max.idle.ms": Passed("connections.max.idle.ms", "connections_max_idle_ms", 0, 2**31 - 1),
    "enable.metrics.push": Passed("enable.metrics.push"),
    "metadata.recovery.strategy": Passed("metadata.recovery.strategy"),
    "metadata.recovery.rebootstrap.trigger.ms": Passed("metadata.recovery.rebootstrap.trigger.ms", None, 0, 2**31 - 1),
}

PASSED: Final = {
    "producer": _SHARED
    | {
        "acks": Passed("acks", "acks"),
        "batch.size": Passed("batch.size", "batch_size", 1, 2**31 - 1),
        "linger.ms": Passed("linger.ms", "linger_ms", 0, 900_000),
        "retries": Passed("retries", "retries"),
        "compression.type": Passed("compression.type", "compression_type"),
        "max.in.flight.requests.per.connection": Passed(
            "max.in.flight.requests.per.connection", "max_in_flight_requests_per_connection", 1, 1_000_000
        ),
        # librdkafka ends a batch at this size and refuses a larger record, as Java does with max.request.size.
        "max.request.size": Passed("message.max.bytes", "max_request_size", 1000, 1_000_000_000),
        "delivery.timeout.ms": Passed("delivery.timeout.ms", "delivery_timeout_ms"),
        "enable.idempotence": Passed("enable.idempotence", "enable_idempotence"),
        "transactional.id": Passed("transactional.id", "transactional_id"),
        "transaction.timeout.ms": Passed("transaction.timeout.ms", "transaction_timeout_ms", 1000, 2**31 - 1),
    },
    "consumer": _SHARED
    | {
        "group.id": Passed("group.id", "group_id"),
        "group.instance.id": Passed("group.instance.id", "group_instance_id"),
        "session.timeout.ms": Passed("session.timeout.ms", "session_timeout_ms", 1, 3_600_000),
        "heartbeat.interval.ms": Passed("heartbeat.interval.ms", "heartbeat_interval_ms", 1, 3_600_000),
        "max.poll.interval.ms": Passed("max.poll.interval.ms", "max_poll_interval_ms", 1, 86_400_000),
        "enable.auto.commit": Passed("enable.auto.commit", "enable_auto_commit"),
        "auto.commit.interval.ms": Passed("auto.commit.interval.ms", "auto_commit_interval_ms", 0, 86_400_000),
        "client.rack": Passed("client.rack", "client_rack"),
        "max.partition.fetch.bytes": Passed("max.partition.fetch.bytes", "max_partition_fetch_bytes", 1, 1_000_000_000),
        "fetch.min.bytes": Passed("fetch.min.bytes", "fetch_min_bytes", 1, 100_000_000),
        "fetch.max.bytes": Passed("fetch.max.bytes", "fetch_max_bytes", 0, 2_147_483_135),
        "fetch.max.wait.ms": Passed("fetch.wait.max.ms", "fetch_max_wait_ms", 0, 300_000),
        "check.crcs": Passed("check.crcs", "check_crcs"),
        "isolation.level": Passed("isolation.level", "isolation_level"),
        "allow.auto.create.topics": Passed("allow.auto.create.topics", "allow_auto_create_topics"),
        "group.protocol": Passed("group.protocol"),
        "group.remote.assignor": Passed("group.remote.assignor"),
    },
    "admin": _SHARED,
}
"""Settings with another name and the same meaning."""

STATED: Final = {
    "producer": ("max.request.size", "reconnect.backoff.ms", "reconnect.backoff.max.ms"),
    "consumer": (
        "isolation.level",
        "check.crcs",
        "allow.auto.create.topics",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
    ),
    "admin": ("reconnect.backoff.ms", "reconnect.backoff.max.ms"),
}
"""Settings passed with Java's default, because librdkafka's differs in what is delivered or how soon a broker's return
is noticed. Batch sizes and buffers keep librdkafka's defaults, which are faster."""

KEPT: Final = {
    "producer": ("max.block.ms", "buffer.memory"),
    "consumer": ("max.poll.records", "default.api.timeout.ms"),
    "admin": ("default.api.timeout.ms", "retries"),
}
"""Settings that the worker implements itself; no client library has them."""

HARMLESS: Final = (
    "metrics.sample.window.ms",
    "metrics.num.samples",
    "metrics.recording.level",
    "config.providers",
    "metadata.max.idle.ms",
    "exclude.internal.topics",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "sasl.jaas.config",
    "sasl.mechanism",
    "security.protocol",
)
"""Settings that are not reported: they are translated elsewhere, or do not affect the data."""

_SERDE: Final = "org.apache.kafka.common.serialization."

CLASS_KEYS: Final = {
    "interceptor.classes": (),
    "metric.reporters": ("org.apache.kafka.common.metrics.JmxReporter",),
    "key.serializer": (f"{_SERDE}ByteArraySerializer",),
    "value.serializer": (f"{_SERDE}ByteArraySerializer",),
    "key.deserializer": (f"{_SERDE}ByteArrayDeserializer",),
    "value.deserializer": (f"{_SERDE}ByteArrayDeserializer",),
    "partitioner.class": (
        "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
        "org.apache.kafka.clients.producer.internals.BuiltInPartitioner",
    ),
    "sasl.client.callback.handler.class": (msk_iam.CLIENT_HANDLER,),
    "sasl.login.callback.handler.class": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
        msk_iam.LOGIN_HANDLER,
    ),
    "sasl.login.class": (),
    "sasl.oauthbearer.jwt.retriever.class": (
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        "org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever",
        JWT_BEARER_RETRIEVER,
    ),
    "sasl.oauthbearer.jwt.validator.class": (
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        "org.apache.kafka.common.security.oauthbearer.ClientJwtValidator",
    ),
    "ssl.engine.factory.class": (),
    "security.providers": (),
    "config.providers": (),
}
"""Settings that make Java load a class, with allowed values: classes of known libraries that change nothing here."""

_ASSIGNORS: Final = "org.apache.kafka.clients.consumer."

ASSIGNORS: Final = {
    f"{_ASSIGNORS}RangeAssignor": "range",
    f"{_ASSIGNORS}RoundRobinAssignor": "roundrobin",
    f"{_ASSIGNORS}CooperativeStickyAssignor": "cooperative-sticky",
    "range": "range",
    "roundrobin": "roundrobin",
    "cooperative-sticky": "cooperative-sticky",
}
"""Java's partition assignors by librdkafka's names."""
