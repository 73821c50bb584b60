"""Settings of Apache's worker that this one does not serve: refused if they protect, else warned of."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from headrace.config.connector.clients import shared_admin, sink_consumer
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.java_only import warn_of_variables

DISTRIBUTED = {
    "bootstrap.servers": "a:1",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("producer.interceptor.classes", "io.confluent.monitoring.clients.interceptor.MonitoringProducerInterceptor"),
        ("consumer.interceptor.classes", "io.confluent.monitoring.clients.interceptor.MonitoringConsumerInterceptor"),
        ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter,org.example.Reporter"),
        ("connect.protocol", "compatible"),
        ("value.converter.plugin.version", "[1,2)"),
        ("ssl.client.auth", "required"),
    ],
)
def test_a_setting_that_does_nothing_is_warned_of_once(key: str, value: str, caplog: pytest.LogCaptureFixture) -> None:
    config = WorkerConfig.distributed({**DISTRIBUTED, key: value})
    (line,) = warned(caplog)
    assert line.startswith(f"The setting '{key}' has no effect: ")
    # Clients work without what looks on, rather than fail with every task.
    sink_consumer(config, {"name": "c"}, 0)
    shared_admin(config)


def test_defaults_and_what_is_served_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    WorkerConfig.distributed(
        {
            **DISTRIBUTED,
            "metric.reporters": "org.apache.kafka.common.metrics.JmxReporter",
            "plugin.discovery": "SERVICE_LOAD",
            "connect.protocol": "sessioned",
            "ssl.client.auth": "none",
            "rest.extension.classes": "",
        }
    )
    assert warned(caplog) == []


def test_variables_of_apaches_start_scripts_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_variables({"KAFKA_OPTS": "-javaagent:/jmx.jar=1", "KAFKA_JMX_PORT": "1", "KAFKA_HEAP_OPTS": " ", "X": "y"})
    jmx, opts = sorted(warned(caplog))
    assert "KAFKA_OPTS has no effect" in opts
    assert "GET /metrics" in opts
    assert "KAFKA_JMX_PORT has no effect" in jmx
    assert "jmx.jar" not in caplog.text  # it may hold a password


def test_a_file_of_rest_users_in_kafka_opts_is_read_and_not_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jaas = tmp_path / "jaas.conf"
    jaas.write_text("KafkaConnect { a.B required; };")
    option = f"-Djava.security.auth.login.config={jaas}"
    warn_of_variables({"KAFKA_OPTS": option})
    assert warned(caplog) == []
    warn_of_variables({"KAFKA_OPTS": f"{option} -javaagent:/jmx.jar=1"})
    jaas.write_text("KafkaClient { a.B required; };")
    warn_of_variables({"KAFKA_OPTS": option})
    more, of_clients = warned(caplog)
    assert "of it only java.security.auth.login.config is read" in more
    assert "sasl.jaas.config" in of_clients


def test_variables_of_other_images_are_answered_with_ours(caplog: pytest.LogCaptureFixture) -> None:
    debezium = {"BOOTSTRAP_SERVERS": "k:9092", "STATUS_STORAGE_TOPIC": "s", "GROUP_ID": "1", "CONNECT_GROUP_ID": "1"}
    warn_of_variables({**debezium, "KAFKA_CONNECT_SASL_PASSWORD_FILE": "user/hunter2"})
    found = {line.split()[3]: line.rpartition(" ")[2] for line in warned(caplog)}
    assert found == {
        "BOOTSTRAP_SERVERS": "CONNECT_BOOTSTRAP_SERVERS",
        "STATUS_STORAGE_TOPIC": "CONNECT_STATUS_STORAGE_TOPIC",
        "KAFKA_CONNECT_SASL_PASSWORD_FILE": "CONNECT_SASL_JAAS_CONFIG",
    }
    assert "hunter2" not in caplog.text


def test_common_names_alone_are_nobodys(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_variables({"GROUP_ID": "1", "LOG_LEVEL": "INFO", "BOOTSTRAP_SERVERS": "k:1"})
    assert warned(caplog) == []
