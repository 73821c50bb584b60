"""Settings and environment variables of Apache's worker that have no effect here.

Each is warned of once, with its replacement.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from typing import Final

from headrace.config.kafka.client_keys import CLASS_KEYS
from headrace.config.kafka.jaas import is_for_clients, split_option
from headrace.config.settings import Settings
from headrace.config.worker.rest_tls import ALL_LISTENERS

log = logging.getLogger(__name__)

_CLIENT_AUTH: Final = "ssl.client.auth"
_CLIENTS: Final = re.compile(r"^(producer|consumer|admin)\.")

_WITHOUT_EFFECT: Final = {
    "key.converter.plugin.version": "the latest version is used where a connector names no converter",
    "value.converter.plugin.version": "the latest version is used where a connector names no converter",
    "header.converter.plugin.version": "the latest version is used where a connector names no converter",
    "connect.protocol": "this worker offers its group the protocol sessioned only",
    "worker.unsync.backoff.ms": "a worker that cannot catch up tries again by itself",
}
"""Settings of Apache's worker without effect here, with the actual behaviour."""

_OBSERVERS: Final = {
    "interceptor.classes": "records pass without interceptors, because this worker's Kafka clients run no Java",
    "metric.reporters": "this worker's Kafka clients run no Java; GET /metrics has the metrics",
}
"""Settings that name observers of a worker's clients; a client works without them."""

_VARIABLES: Final = {
    "KAFKA_OPTS": "of it only java.security.auth.login.config is read, for the users of the REST API; give options of "
    "Spark's JVM as spark.driver.extraJavaOptions, and a JAAS login of Kafka's clients as sasl.jaas.config; GET "
    "/metrics has what a javaagent for JMX would give",
    "KAFKA_HEAP_OPTS": "set the heap of Spark's JVM as spark.driver.memory, that of Java plugins as java.host.heap",
    "KAFKA_JVM_PERFORMANCE_OPTS": "give options of Spark's JVM as spark.driver.extraJavaOptions",
    "KAFKA_GC_LOG_OPTS": "give options of Spark's JVM as spark.driver.extraJavaOptions",
    "KAFKA_JMX_PORT": "GET /metrics has the metrics",
    "KAFKA_JMX_OPTS": "GET /metrics has the metrics",
    "KAFKA_JMX_HOSTNAME": "GET /metrics has the metrics",
    "JMX_PORT": "GET /metrics has the metrics",
    "KAFKA_LOG4J_OPTS": "set levels with PUT /admin/loggers or with CONNECT_LOG4J_ variables",
    "CLASSPATH": "put plugins, jars too, into a folder of plugin.path",
    "EXTRA_ARGS": "its arguments are those of Apache's start script",
}
"""Variables of Apache's start scripts, with advice."""


def heeded(settings: Settings, props: Mapping[str, str]) -> dict[str, str]:
    """A worker's properties without observers of its clients; warns of all settings without effect."""
    for key, instead in without_effect(settings, props).items():
        log.warning("The setting '%s' has no effect: %s", key, instead)
    observers = dict(_observers(props))
    return {key: value for key, value in props.items() if key not in observers}


def without_effect(settings: Settings, props: Mapping[str, str]) -> dict[str, str]:
    """A worker's properties without effect, each with the reason or with what to do instead."""
    return {**dict(_useless(settings, props)), **dict(_observers(props))}


def warn_of_variables(environment: Mapping[str, str]) -> None:
    """Warns of environment variables that only Apache's start scripts or other images read."""
    for name, wanted in of_other_images(environment):
        log.warning("The environment variable %s is another image's and has no effect here: set %s", name, wanted)
    for name, instead in _VARIABLES.items():
        value = environment.get(name, "").strip()
        if value and not (name == "KAFKA_OPTS" and _is_login(value)):
            log.warning("The environment variable %s has no effect on this worker: %s", name, instead)


def _is_login(kafka_opts: str) -> bool:
    """True if KAFKA_OPTS names the users of the REST API and nothing else."""
    file, has_others = split_option(kafka_opts)
    return file is not None and not has_others and not is_for_clients(file)


def _useless(settings: Settings, props: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, instead in _WITHOUT_EFFECT.items():
        if key in settings and _differs(settings[key].judge(props).value, settings[key].default):
            yield key, instead
    served = ",".join(props.get(key, "") for key in ALL_LISTENERS)
    if props.get(_CLIENT_AUTH, "none").strip() != "none" and "https:" not in served.lower():
        yield _CLIENT_AUTH, "no listener has https, so that no client is asked for a certificate"


def _differs(value: object, default: object) -> bool:
    return str(value).lower() != str(default).lower()


def _observers(props: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in props.items():
        name = _CLIENTS.sub("", key)
        classes = {one.strip() for one in value.split(",")} - {""}
        if name in _OBSERVERS and not classes <= set(CLASS_KEYS[name]):
            yield key, _OBSERVERS[name]


_DEBEZIUM: Final = {
    "BOOTSTRAP_SERVERS": "CONNECT_BOOTSTRAP_SERVERS",
    "GROUP_ID": "CONNECT_GROUP_ID",
    "CONFIG_STORAGE_TOPIC": "CONNECT_CONFIG_STORAGE_TOPIC",
    "OFFSET_STORAGE_TOPIC": "CONNECT_OFFSET_STORAGE_TOPIC",
    "STATUS_STORAGE_TOPIC": "CONNECT_STATUS_STORAGE_TOPIC",
    "KEY_CONVERTER": "CONNECT_KEY_CONVERTER",
    "VALUE_CONVERTER": "CONNECT_VALUE_CONVERTER",
    "OFFSET_FLUSH_INTERVAL_MS": "CONNECT_OFFSET_FLUSH_INTERVAL_MS",
    "OFFSET_FLUSH_TIMEOUT_MS": "CONNECT_OFFSET_FLUSH_TIMEOUT_MS",
    "SHUTDOWN_TIMEOUT": "CONNECT_TASK_SHUTDOWN_GRACEFUL_TIMEOUT_MS",
    "ADVERTISED_HOST_NAME": "CONNECT_REST_ADVERTISED_HOST_NAME",
    "ADVERTISED_PORT": "CONNECT_REST_ADVERTISED_PORT",
    "HOST_NAME": "CONNECT_LISTENERS",
    "REST_HOST_NAME": "CONNECT_LISTENERS",
    "REST_PORT": "CONNECT_REST_PORT",
    "LOG_LEVEL": "CONNECT_LOG4J_ROOT_LOGLEVEL",
    "HEAP_OPTS": "CONNECT_SPARK_DRIVER_MEMORY",
}
"""Debezium's variables. The names are common, so they count only beside one of `_SURELY_DEBEZIUM`."""

_SURELY_DEBEZIUM: Final = ("CONFIG_STORAGE_TOPIC", "OFFSET_STORAGE_TOPIC", "STATUS_STORAGE_TOPIC")

_STRIMZI: Final = {
    "KAFKA_CONNECT_BOOTSTRAP_SERVERS": "CONNECT_BOOTSTRAP_SERVERS",
    "KAFKA_CONNECT_CONFIGURATION": "one CONNECT_ variable for each of its lines",
    "KAFKA_CONNECT_PLUGIN_PATH": "CONNECT_PLUGIN_PATH",
    "KAFKA_CONNECT_TLS": "CONNECT_SECURITY_PROTOCOL",
    "KAFKA_CONNECT_TRUSTED_CERTS": "CONNECT_SSL_TRUSTSTORE_LOCATION",
    "KAFKA_CONNECT_TLS_AUTH_CERT": "CONNECT_SSL_KEYSTORE_LOCATION",
    "KAFKA_CONNECT_TLS_AUTH_KEY": "CONNECT_SSL_KEYSTORE_LOCATION",
    "KAFKA_CONNECT_SASL_MECHANISM": "CONNECT_SASL_MECHANISM",
    "KAFKA_CONNECT_SASL_USERNAME": "CONNECT_SASL_JAAS_CONFIG",
    "KAFKA_CONNECT_SASL_PASSWORD_FILE": "CONNECT_SASL_JAAS_CONFIG",
    "STRIMZI_JAVA_OPTS": "spark.driver.extraJavaOptions in the file of the worker",
    "STRIMZI_DYNAMIC_HEAP_PERCENTAGE": "CONNECT_SPARK_DRIVER_MEMORY",
}
"""Strimzi's variables."""


def of_other_images(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables set for another image, each with this worker's counterpart if that is not set."""
    is_debezium = any(environment.get(name, "").strip() for name in _SURELY_DEBEZIUM)
    for name, wanted in {**(_DEBEZIUM if is_debezium else {}), **_STRIMZI}.items():
        if environment.get(name, "").strip() and not environment.get(wanted, "").strip():
            yield name, wanted
