"""The topics of the replication's state: heartbeats, checkpoints, offset syncs."""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from headrace.config.kafka.client_config import ClientConfig
from headrace.config.problems import ConfigError, Problem
from headrace.connectors.mirror.clients import admin_client, answered
from headrace.plugins.errors import RetriableError
from headrace.plugins.stopping import StopToken

log = logging.getLogger(__name__)

_LEFT_TO_OTHERS: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "this connector may not create topics there",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "this connector may not create topics there",
    KafkaError.UNSUPPORTED_VERSION: "the brokers are too old to be asked for it",
}


class InternalTopic(NamedTuple):
    """One such topic: compacted, of one partition."""

    name: str
    replication_factor: int
    setting: str
    """The setting of the replication factor."""

    def ensure(self, client: ClientConfig, timeout_s: float, stopping: StopToken) -> None:
        """Create the topic if it is missing; an existing one is taken as it is.

        If the cluster refuses, others are left to create it.

        Errors: ConfigError for a replication factor that the cluster cannot have; RetriableError; StoppedError.
        """
        wanted = NewTopic(
            self.name,
            num_partitions=1,
            replication_factor=self.replication_factor,
            config={"cleanup.policy": "compact"},
        )
        request = admin_client(client).create_topics([wanted], request_timeout=timeout_s)[self.name]
        try:
            answered(request, stopping)
        except KafkaException as raised:
            self._failed(raised.args[0])
        else:
            log.info("Created topic %s", self.name)

    def _failed(self, error: KafkaError) -> None:
        code = error.code()
        if code == KafkaError.TOPIC_ALREADY_EXISTS:
            return
        if code in _LEFT_TO_OTHERS:
            log.warning(
                "The topic %s could not be created: %s. It has to be there already, or be created by the brokers: with "
                "one partition and cleanup.policy=compact",
                self.name,
                _LEFT_TO_OTHERS[code],
            )
            return
        if code == KafkaError.INVALID_REPLICATION_FACTOR:
            message = f"The topic {self.name} cannot be created: {error.str()}"
            remedy = f"Set {self.setting} to at most the number of brokers, or to -1 for their default."
            raise ConfigError(Problem(self.setting, str(self.replication_factor), message, remedy))
        raise RetriableError(f"The topic {self.name} could not be created: {error.str()}")
