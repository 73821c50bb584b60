"""A sink connector that runs in the Java host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.connectors.java.connector import VALIDATION_S, JavaSourceConnector
from headrace.connectors.java.errors import Unsupported
from headrace.connectors.java.hosts import running_host
from headrace.plugins.offsets import kafka_offsets


class JavaSinkConnector(JavaSourceConnector):
    """The base of the classes that `plugin.sink_connector` makes: a source's but for its offsets, Kafka's."""

    def check_offsets(self, config: Mapping[str, str], offsets: Mapping[str, Any]) -> bool | None:
        """What the plugin's `alterOffsets` says; None where it does not check them."""
        given = [[*partition, offset] for partition, offset in kafka_offsets(offsets).items()]
        try:
            checked = running_host().call(
                "plugin.alter_sink_offsets", VALIDATION_S, plugin=self.plugin, config=dict(config), offsets=given
            )
        except Unsupported as error:
            raise NotImplementedError(str(error)) from error
        return True if checked else None
