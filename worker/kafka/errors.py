"""Lists of retriable Kafka codes, and which errors let a failed task start again."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from headrace.config.kafka.client_failures import ClientFailures
from headrace.config.problems import ConfigError
from headrace.plugins.errors import DataError, LoginRefused, RetriableError, causes
from headrace.plugins.interop.kafka.certificates import with_reason
from headrace.worker.model import AutoRestart

RETRIABLE: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._NOENT,  # no leader of a partition is known
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_CONTROLLER,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # the broker may not know a new topic yet
    }
)
"""Transient codes: the request is repeated within its budget."""
NO_TOPIC: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
    }
)
"""The topic does not exist, or has another id than the known one."""
CONSUMER_RETRIABLE: Final = RETRIABLE | NO_TOPIC | {KafkaError._MAX_POLL_EXCEEDED, KafkaError.OFFSET_OUT_OF_RANGE}
"""Codes after which a consumer goes on polling, among them a missing topic and an offset that it resets."""
NOT_FOR_THIS_CLIENT: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)
"""The brokers refuse this client's request, or do not support it; the topic may exist."""
REFUSED_S: Final = 5.0
"""The time that a broker may refuse known users: just started, it may not have read them all yet."""
_OF_THE_MACHINE: Final = frozenset(
    {
        errno.EAGAIN,
        errno.EDQUOT,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EMFILE,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENFILE,
        errno.ENOMEM,
        errno.ENOSPC,
        errno.ESTALE,
    }
)
_GROUPS: Final = frozenset(
    {
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REBALANCE_IN_PROGRESS,
    }
)


class CertificateRefused(LoginRefused):
    """The broker's or this client's certificate is refused; a new start of the task reads the stores again."""


def refused(failures: ClientFailures, config: Mapping[str, Any], after_s: float = REFUSED_S) -> LoginRefused | None:
    """Return the error that ends a task whose login or TLS has been refused for `after_s`; None otherwise."""
    since_s = failures.seconds
    if since_s is None or since_s < after_s:
        return None
    if failures.login is not None:
        what = "look at sasl.mechanism and sasl.jaas.config under producer.override., consumer.override. or admin."
        return LoginRefused(f"Kafka refuses the login ({failures.login}); {what}override., or the worker's own")
    if failures.certificate is not None:
        what = f"TLS cannot begin ({failures.certificate}); look at the certificates in ssl.truststore and ssl.keystore"
        return CertificateRefused(with_reason(what, failures.certificate, config) or what)
    return None


def is_retriable(error: BaseException) -> bool:
    """True if a new start of the failed task may help; judges the error and its causes."""
    chain = list(causes(error))
    if any(isinstance(one, ConfigError | DataError) for one in chain):
        return False
    return any(map(_is_retriable, chain))


def restart_after(error: BaseException) -> AutoRestart:
    """Return how the task that failed with this error is restarted automatically."""
    if not is_retriable(error):
        return AutoRestart.NO
    is_login = any(isinstance(one, LoginRefused) and not isinstance(one, CertificateRefused) for one in causes(error))
    return AutoRestart.BY_NEW_LOGIN if is_login else AutoRestart.YES


def _is_retriable(error: BaseException) -> bool:
    if isinstance(error, KafkaException):
        told = error.args[0] if error.args else None
        return isinstance(told, KafkaError) and not told.fatal() and told.code() in RETRIABLE | _GROUPS
    if isinstance(error, RetriableError | LoginRefused | ConnectionError | TimeoutError):
        return True
    return isinstance(error, OSError) and error.errno in _OF_THE_MACHINE
