"""Environment variables of other Kafka Connect images, with this worker's counterparts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

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
