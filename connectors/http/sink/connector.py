"""The HTTP sinks, one class for each vendor's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.config.problems import ConfigError, Problem
from headrace.connectors.http.sink import aiven, confluent
from headrace.connectors.http.sink.task import HttpSinkTask, Vendor
from headrace.plugins.contracts import Connector


class _HttpSinkConnector(Connector):
    vendor: Vendor

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Problems of settings together."""
        if self.settings.problems(config):
            return []
        try:
            self.vendor.options(config)
            self.vendor.outlet(config, self.worker).client.close()
        except ConfigError as error:
            return list(error.problems)
        return []

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool:
        """Accept all: Kafka's offsets are all that it has."""
        return True


class ConfluentHttpSinkTask(HttpSinkTask):
    """Sends by Confluent's settings."""

    vendor = confluent.Confluent()


class ConfluentHttpSinkConnector(_HttpSinkConnector):
    """Plans as many equal tasks as allowed."""

    settings = confluent.SETTINGS
    undeclared = ("reporter.",)
    version = "1.7.8"
    task_class = "io.confluent.connect.http.HttpSinkTask"
    task = ConfluentHttpSinkTask
    vendor = ConfluentHttpSinkTask.vendor


class AivenHttpSinkTask(HttpSinkTask):
    """Sends by Aiven's settings."""

    vendor = aiven.Aiven()


class AivenHttpSinkConnector(_HttpSinkConnector):
    """Plans as many equal tasks as allowed."""

    settings = aiven.SETTINGS
    version = "0.9.0"
    task_class = "io.aiven.kafka.connect.http.HttpSinkTask"
    task = AivenHttpSinkTask
    vendor = AivenHttpSinkTask.vendor
