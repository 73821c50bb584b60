"""Brokers of librdkafka's own, within this process."""

from __future__ import annotations

import ctypes
import logging
from typing import Final

from confluent_kafka import Consumer, cimpl

from headrace.plugins.interop.kafka.librdkafka_internals import handle_of

_library: Final = ctypes.CDLL(cimpl.__file__)
_library.rd_kafka_handle_mock_cluster.restype = ctypes.c_void_p
_library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p


class MockCluster:
    """It lives as long as this object."""

    def __init__(self, brokers: int = 1) -> None:
        config = {"test.mock.num.brokers": brokers, "group.id": "g"}
        self._host = Consumer(config, logger=logging.getLogger(__name__))
        handle = handle_of(self._host)
        assert handle is not None, "confluent-kafka's consumer is another one than is known"
        self._mock = ctypes.c_void_p(_library.rd_kafka_handle_mock_cluster(handle))
        self.bootstrap: str = _library.rd_kafka_mock_cluster_bootstraps(self._mock).decode()

    def create(self, topic: str, partitions: int = 1) -> None:
        """The topic is there."""
        _library.rd_kafka_mock_topic_create(self._mock, topic.encode(), partitions, 1)

    def coordinates(self, group: str, broker: int) -> None:
        """This broker coordinates the group from now on."""
        _library.rd_kafka_mock_coordinator_set(self._mock, b"group", group.encode(), broker)

    def answers(self, broker: int, api_key: int, code: int, times: int = 1) -> None:
        """The next requests of this kind to this broker are answered so."""
        errors = [ctypes.c_int(one) for _ in range(times) for one in (code, 0)]  # each after 0 ms
        kind, count = ctypes.c_int16(api_key), ctypes.c_size_t(times)
        _library.rd_kafka_mock_broker_push_request_error_rtts(self._mock, broker, kind, count, *errors)
