"""The settings of Kafka's Java clients (4.3.1): names, types, defaults and limits.

`client_config.py` translates them. Serializers are optional, because Headrace has its own.
Source: the ConfigDefs of kafka-clients 4.3.1.
"""

from __future__ import annotations

from typing import Any, Final

from headrace.config.settings import REQUIRED, Importance, Setting, Settings, Type
from headrace.config.validators import ListOf, NonEmpty, OneOf, OneOfIgnoringCase, Range, Validator


def _key(name: str, type_: Type, default: Any, importance: Importance, validator: Validator | None = None) -> Setting:
    text = "A setting of Kafka's clients; see their documentation."
    return Setting(name, type_, default, validator, importance, text, is_plugin=False)


SSL: Final = Settings(
    _key("ssl.protocol", Type.STRING, "TLSv1.3", Importance.MEDIUM),
    _key("ssl.provider", Type.STRING, None, Importance.MEDIUM),
    _key("ssl.cipher.suites", Type.LIST, [], Importance.LOW, ListOf()),
    _key("ssl.enabled.protocols", Type.LIST, ["TLSv1.2", "TLSv1.3"], Importance.MEDIUM, ListOf()),
    _key("ssl.keystore.type", Type.STRING, "JKS", Importance.MEDIUM),
    _key("ssl.keystore.location", Type.STRING, None, Importance.HIGH),
    _key("ssl.keystore.password", Type.PASSWORD, None, Importance.HIGH),
    _key("ssl.key.password", Type.PASSWORD, None, Importance.HIGH),
    _key("ssl.keystore.key", Type.PASSWORD, None, Importance.HIGH),
    _key("ssl.keystore.certificate.chain", Type.PASSWORD, None, Importance.HIGH),
    _key("ssl.truststore.certificates", Type.PASSWORD, None, Importance.HIGH),
    _key("ssl.truststore.type", Type.STRING, "JKS", Importance.MEDIUM),
    _key("ssl.truststore.location", Type.STRING, None, Importance.HIGH),
    _key("ssl.truststore.password", Type.PASSWORD, None, Importance.HIGH),
    _key("ssl.keymanager.algorithm", Type.STRING, "SunX509", Importance.LOW),
    _key("ssl.trustmanager.algorithm", Type.STRING, "PKIX", Importance.LOW),
    _key("ssl.endpoint.identification.algorithm", Type.STRING, "https", Importance.LOW),
    _key("ssl.secure.random.implementation", Type.STRING, None, Importance.LOW),
    _key("ssl.engine.factory.class", Type.CLASS, None, Importance.LOW),
)
"""TLS settings, for clients and for listeners."""

SASL: Final = Settings(
    _key("sasl.kerberos.service.name", Type.STRING, None, Importance.MEDIUM),
    _key("sasl.kerberos.kinit.cmd", Type.STRING, "/usr/bin/kinit", Importance.LOW),
    _key("sasl.kerberos.ticket.renew.window.factor", Type.DOUBLE, 0.8, Importance.LOW),
    _key("sasl.kerberos.ticket.renew.jitter", Type.DOUBLE, 0.05, Importance.LOW),
    _key("sasl.kerberos.min.time.before.relogin", Type.LONG, 60000, Importance.LOW),
    _key("sasl.login.refresh.window.factor", Type.DOUBLE, 0.8, Importance.LOW, Range(0.5, 1.0)),
    _key("sasl.login.refresh.window.jitter", Type.DOUBLE, 0.05, Importance.LOW, Range(0.0, 0.25)),
    _key("sasl.login.refresh.min.period.seconds", Type.SHORT, 60, Importance.LOW, Range(0, 900)),
    _key("sasl.login.refresh.buffer.seconds", Type.SHORT, 300, Importance.LOW, Range(0, 3600)),
    _key("sasl.mechanism", Type.STRING, "GSSAPI", Importance.MEDIUM),
    _key("sasl.jaas.config", Type.PASSWORD, None, Importance.MEDIUM),
    _key("sasl.client.callback.handler.class", Type.CLASS, None, Importance.MEDIUM),
    _key("sasl.login.callback.handler.class", Type.CLASS, None, Importance.MEDIUM),
    _key("sasl.login.class", Type.CLASS, None, Importance.MEDIUM),
    _key("sasl.login.connect.timeout.ms", Type.INT, None, Importance.LOW),
    _key("sasl.login.read.timeout.ms", Type.INT, None, Importance.LOW),
    _key("sasl.login.retry.backoff.max.ms", Type.LONG, 10000, Importance.LOW),
    _key("sasl.login.retry.backoff.ms", Type.LONG, 100, Importance.LOW),
    _key(
        "sasl.oauthbearer.jwt.retriever.class",
        Type.CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        Importance.MEDIUM,
    ),
    _key(
        "sasl.oauthbearer.jwt.validator.class",
        Type.CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        Importance.MEDIUM,
    ),
    _key("sasl.oauthbearer.scope", Type.STRING, None, Importance.MEDIUM),
    _key("sasl.oauthbearer.client.credentials.client.id", Type.STRING, None, Importance.MEDIUM),
    _key("sasl.oauthbearer.client.credentials.client.secret", Type.PASSWORD, None, Importance.MEDIUM),
    _key(
        "sasl.oauthbearer.assertion.algorithm",
        Type.STRING,
        "RS256",
        Importance.MEDIUM,
        OneOfIgnoringCase("ES256", "RS256"),
    ),
    _key("sasl.oauthbearer.assertion.claim.aud", Type.STRING, None, Importance.MEDIUM),
    _key("sasl.oauthbearer.assertion.claim.exp.seconds", Type.INT, 300, Importance.LOW, Range(0, 86400)),
    _key("sasl.oauthbearer.assertion.claim.iss", Type.STRING, None, Importance.MEDIUM),
    _key("sasl.oauthbearer.assertion.claim.jti.include", Type.BOOLEAN, False, Importance.MEDIUM),
    _key("sasl.oauthbearer.assertion.claim.nbf.seconds", Type.INT, 60, Importance.LOW, Range(0, 3600)),
    _key("sasl.oauthbearer.assertion.claim.sub", Type.STRING, None, Importance.MEDIUM),
    _key("sasl.oauthbearer.assertion.file", Type.STRING, None, Importance.MEDIUM),
    _key("sasl.oauthbearer.assertion.private.key.file", Type.STRING, None, Importance.MEDIUM),
    _key("sasl.oauthbearer.assertion.private.key.passphrase", Type.PASSWORD, None, Importance.MEDIUM),
    _key("sasl.oauthbearer.assertion.template.file", Type.STRING, None, Importance.MEDIUM),
    _key("sasl.oauthbearer.scope.claim.name", Type.STRING, "scope", Importance.LOW),
    _key("sasl.oauthbearer.sub.claim.name", Type.STRING, "sub", Importance.LOW),
    _key("sasl.oauthbearer.token.endpoint.url", Type.STRING, None, Importance.MEDIUM),
    _key("sasl.oauthbearer.jwks.endpoint.url", Type.STRING, None, Importance.MEDIUM),
    _key("sasl.oauthbearer.jwks.endpoint.refresh.ms", Type.LONG, 3_600_000, Importance.LOW),
    _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", Type.LONG, 10000, Importance.LOW),
    _key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", Type.LONG, 100, Importance.LOW),
    _key("sasl.oauthbearer.clock.skew.seconds", Type.INT, 30, Importance.LOW),
    _key("sasl.oauthbearer.expected.audience", Type.LIST, [], Importance.HIGH, ListOf()),
    _key("sasl.oauthbearer.expected.issuer", Type.STRING, None, Importance.HIGH),
    _key("sasl.oauthbearer.header.urlencode", Type.BOOLEAN, False, Importance.LOW),
)
"""SASL settings."""

_SHARED: Final = Settings(
    _key("bootstrap.servers", Type.LIST, REQUIRED, Importance.HIGH, ListOf(empty=False)),
    _key(
        "client.dns.lookup",
        Type.STRING,
        "use_all_dns_ips",
        Importance.MEDIUM,
        OneOf("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
    ),
    _key("send.buffer.bytes", Type.INT, 131_072, Importance.MEDIUM, Range(-1)),
    _key("reconnect.backoff.ms", Type.LONG, 50, Importance.LOW, Range(0)),
    _key("reconnect.backoff.max.ms", Type.LONG, 1000, Importance.LOW, Range(0)),
    _key("retry.backoff.ms", Type.LONG, 100, Importance.LOW, Range(0)),
    _key("retry.backoff.max.ms", Type.LONG, 1000, Importance.LOW, Range(0)),
    _key("enable.metrics.push", Type.BOOLEAN, True, Importance.LOW),
    _key("request.timeout.ms", Type.INT, 30000, Importance.MEDIUM, Range(0)),
    _key("metadata.max.age.ms", Type.LONG, 300_000, Importance.LOW, Range(0)),
    _key("metrics.sample.window.ms", Type.LONG, 30000, Importance.LOW, Range(0)),
    _key("metrics.num.samples", Type.INT, 2, Importance.LOW, Range(1)),
    _key("metrics.recording.level", Type.STRING, "INFO", Importance.LOW, OneOf("INFO", "DEBUG", "TRACE")),
    _key("metric.reporters", Type.LIST, ["org.apache.kafka.common.metrics.JmxReporter"], Importance.LOW, ListOf()),
    _key("socket.connection.setup.timeout.ms", Type.LONG, 10000, Importance.MEDIUM),
    _key("socket.connection.setup.timeout.max.ms", Type.LONG, 30000, Importance.MEDIUM),
    _key("connections.max.idle.ms", Type.LONG, 540_000, Importance.MEDIUM),
    _key(
        "security.protocol",
        Type.STRING,
        "PLAINTEXT",
        Importance.MEDIUM,
        OneOfIgnoringCase("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT"),
    ),
    _key("security.providers", Type.STRING, None, Importance.LOW),
    _key(
        "metadata.recovery.strategy",
        Type.STRING,
        "rebootstrap",
        Importance.LOW,
        OneOfIgnoringCase("REBOOTSTRAP", "NONE"),
    ),
    _key("metadata.recovery.rebootstrap.trigger.ms", Type.LONG, 300_000, Importance.LOW, Range(0)),
    _key("config.providers", Type.LIST, [], Importance.LOW, ListOf()),
)

PRODUCER: Final = (
    _SHARED
    + SSL
    + SASL
    + Settings(
        _key("buffer.memory", Type.LONG, 33_554_432, Importance.HIGH, Range(0)),
        _key("retries", Type.INT, 2_147_483_647, Importance.HIGH, Range(0, 2_147_483_647)),
        _key("acks", Type.STRING, "all", Importance.LOW, OneOf("all", "-1", "0", "1")),
        _key("compression.type", Type.STRING, "none", Importance.HIGH, OneOf("none", "gzip", "snappy", "lz4", "zstd")),
        _key("compression.gzip.level", Type.INT, -1, Importance.MEDIUM),
        _key("compression.lz4.level", Type.INT, 9, Importance.MEDIUM, Range(1, 17)),
        _key("compression.zstd.level", Type.INT, 3, Importance.MEDIUM, Range(-131_072, 22)),
        _key("batch.size", Type.INT, 16384, Importance.MEDIUM, Range(0)),
        _key("partitioner.adaptive.partitioning.enable", Type.BOOLEAN, True, Importance.LOW),
        _key("partitioner.availability.timeout.ms", Type.LONG, 0, Importance.LOW, Range(0)),
        _key("partitioner.ignore.keys", Type.BOOLEAN, False, Importance.MEDIUM),
        _key("linger.ms", Type.LONG, 5, Importance.MEDIUM, Range(0)),
        _key("delivery.timeout.ms", Type.INT, 120_000, Importance.MEDIUM, Range(0)),
        _key("client.id", Type.STRING, "", Importance.MEDIUM),
        _key("receive.buffer.bytes", Type.INT, 32768, Importance.MEDIUM, Range(-1)),
        _key("max.request.size", Type.INT, 1_048_576, Importance.MEDIUM, Range(0)),
        _key("max.block.ms", Type.LONG, 60000, Importance.MEDIUM, Range(0)),
        _key("metadata.max.idle.ms", Type.LONG, 300_000, Importance.LOW, Range(5000)),
        _key("max.in.flight.requests.per.connection", Type.INT, 5, Importance.LOW, Range(1)),
        _key("key.serializer", Type.CLASS, None, Importance.HIGH),
        _key("value.serializer", Type.CLASS, None, Importance.HIGH),
        _key("partitioner.class", Type.CLASS, None, Importance.MEDIUM),
        _key("interceptor.classes", Type.LIST, [], Importance.LOW, ListOf()),
        _key("enable.idempotence", Type.BOOLEAN, True, Importance.LOW),
        _key("transaction.timeout.ms", Type.INT, 60000, Importance.LOW),
        _key("transactional.id", Type.STRING, None, Importance.LOW, NonEmpty()),
        _key("transaction.two.phase.commit.enable", Type.BOOLEAN, False, Importance.LOW),
    )
)
"""Every setting of Kafka's producer."""

CONSUMER: Final = (
    _SHARED
    + SSL
    + SASL
    + Settings(
        _key("group.id", Type.STRING, None, Importance.HIGH),
        _key("group.instance.id", Type.STRING, None, Importance.MEDIUM, NonEmpty()),
        _key("session.timeout.ms", Type.INT, 45000, Importance.HIGH),
        _key("heartbeat.interval.ms", Type.INT, 3000, Importance.HIGH),
        _key(
            "partition.assignment.strategy",
            Type.LIST,
            [
                "org.apache.kafka.clients.consumer.RangeAssignor",
                "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
            ],
            Importance.MEDIUM,
            ListOf(),
        ),
        _key("enable.auto.commit", Type.BOOLEAN, True, Importance.MEDIUM),
        _key("auto.commit.interval.ms", Type.INT, 5000, Importance.LOW, Range(0)),
        _key("client.id", Type.STRING, "", Importance.LOW),
        _key("client.rack", Type.STRING, "", Importance.LOW),
        _key("max.partition.fetch.bytes", Type.INT, 1_048_576, Importance.HIGH, Range(0)),
        _key("receive.buffer.bytes", Type.INT, 65536, Importance.MEDIUM, Range(-1)),
        _key("fetch.min.bytes", Type.INT, 1, Importance.HIGH, Range(0)),
        _key("fetch.max.bytes", Type.INT, 52_428_800, Importance.MEDIUM, Range(0)),
        _key("fetch.max.wait.ms", Type.INT, 500, Importance.LOW, Range(0)),
        _key("auto.offset.reset", Type.STRING, "latest", Importance.MEDIUM),
        _key("check.crcs", Type.BOOLEAN, True, Importance.LOW),
        _key("key.deserializer", Type.CLASS, None, Importance.HIGH),
        _key("value.deserializer", Type.CLASS, None, Importance.HIGH),
        _key("default.api.timeout.ms", Type.INT, 60000, Importance.MEDIUM, Range(0)),
        _key("interceptor.classes", Type.LIST, [], Importance.LOW, ListOf()),
        _key("max.poll.records", Type.INT, 500, Importance.MEDIUM, Range(1)),
        _key("max.poll.interval.ms", Type.INT, 300_000, Importance.MEDIUM, Range(1)),
        _key("exclude.internal.topics", Type.BOOLEAN, True, Importance.MEDIUM),
        _key(
            "isolation.level",
            Type.STRING,
            "read_uncommitted",
            Importance.MEDIUM,
            OneOf("read_committed", "read_uncommitted"),
        ),
        _key("allow.auto.create.topics", Type.BOOLEAN, True, Importance.MEDIUM),
        _key("group.protocol", Type.STRING, "classic", Importance.HIGH, OneOfIgnoringCase("CONSUMER", "CLASSIC")),
        _key("group.remote.assignor", Type.STRING, None, Importance.MEDIUM),
    )
)
"""Every setting of Kafka's consumer."""

ADMIN: Final = (
    _SHARED
    + SSL
    + SASL
    + Settings(
        _key("bootstrap.servers", Type.LIST, [], Importance.HIGH, ListOf(empty=False)),
        _key("bootstrap.controllers", Type.LIST, [], Importance.HIGH, ListOf()),
        _key("client.id", Type.STRING, "", Importance.MEDIUM),
        _key("receive.buffer.bytes", Type.INT, 65536, Importance.MEDIUM, Range(-1)),
        _key("enable.metrics.push", Type.BOOLEAN, False, Importance.LOW),
        _key("connections.max.idle.ms", Type.LONG, 300_000, Importance.MEDIUM),
        _key("retries", Type.INT, 2_147_483_647, Importance.LOW, Range(0, 2_147_483_647)),
        _key("default.api.timeout.ms", Type.INT, 60000, Importance.MEDIUM, Range(0)),
    )
)
"""Every setting of Kafka's admin client."""
