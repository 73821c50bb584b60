"""Where partitions of the source cluster begin and end, asked of its brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin._listoffsets import OffsetSpec

from headrace.config.client_config import ClientConfig
from headrace.connectors.mirror.clients import admin_client, answered
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 30.0
_SPECS: Final[Mapping[str, Callable[[], Any]]] = {"earliest": OffsetSpec.earliest, "latest": OffsetSpec.latest}


def offsets_at(
    client: ClientConfig, reset: str, partitions: Collection[TopicPartition], stopping: StopToken
) -> dict[TopicPartition, int]:
    """The first offsets (`earliest`) or the ends (`latest`) of these partitions; without those that are not there.

    Errors: RetriableError, StoppedError.
    """
    if not partitions:
        return {}
    wanted = {Position(*partition): _SPECS[reset]() for partition in partitions}
    found = {}
    for position, request in admin_client(client).list_offsets(wanted, request_timeout=_TIMEOUT_S).items():
        partition = TopicPartition(position.topic, position.partition)
        try:
            found[partition] = answered(request, stopping).offset
        except KafkaException as raised:
            log.info("The source cluster does not say where %s-%d begins: %s", *partition, raised.args[0].str())
    if not found:
        raise RetriableError(
            f"the source cluster does not say where its {len(partitions)} partitions begin; see that its brokers run "
            "and let this connector describe and read its topics"
        )
    return found
