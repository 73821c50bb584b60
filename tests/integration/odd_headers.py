"""Records whose headers have names that are not UTF-8; Java's and other clients may send such."""

from __future__ import annotations

from typing import Any

from kafka import KafkaProducer


class _NoText(str):
    """A name whose bytes are not UTF-8."""

    __slots__ = ()

    def encode(self, *_: Any) -> bytes:
        return b"\xff\xfe"


def send_odd_header(bootstrap: str, topic: str, value: bytes) -> None:
    """Send a record with such a header, and one with a plain name."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send(topic, value, headers=[(_NoText("x"), b"y"), ("plain", b"z")]).get(60)
    producer.close()
