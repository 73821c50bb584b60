"""MirrorReader: which ranges it copies unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.config.kafka.client_config import ClientConfig
from headrace.connectors.mirror.source import reader as reader_module
from headrace.connectors.mirror.source.reader import MirrorReader, Opened

TARGET = ClientConfig("producer", {"bootstrap.servers": "b:9092"})


@pytest.mark.parametrize(("by_tls", "copies"), [(True, True), (False, False)])
def test_the_keys_of_both_clusters_are_tried_once(monkeypatch: pytest.MonkeyPatch, by_tls: bool, copies: bool) -> None:
    tried: list[ClientConfig] = []

    def can_be_reached(client: ClientConfig) -> bool:
        tried.append(client)
        return by_tls

    monkeypatch.setattr(reader_module, "can_be_reached", can_be_reached)
    flow: Any = type("Flow", (), {"source": ClientConfig("consumer", {"bootstrap.servers": "a:9092"})})
    link: Any = None
    opened = Opened(flow, link, {}, link)
    for _ in range(3):
        assert MirrorReader(flow, (), False, opened).can_copy(TARGET) == copies
    assert len(tried) == (2 if by_tls else 1)
    assert not MirrorReader(flow, (), True, opened).can_copy(TARGET)
