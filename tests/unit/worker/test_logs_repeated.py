"""What Kafka's clients repeat many times a second is said once in a while."""

from __future__ import annotations

import logging

from headrace.worker.logs import Repeated


def line(text: str, name: str = "headrace.worker.kafka.writer.client") -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, __file__, 1, text, None, None)


def test_equal_lines_of_a_client_pass_once_in_ten_seconds() -> None:
    now = 0.0
    repeated = Repeated(lambda: now)
    assert repeated.filter(line("no answer (after 0ms)"))
    assert not repeated.filter(line("no answer (after 12ms)"))
    assert repeated.filter(line("refused"))
    assert repeated.filter(line("no answer (after 0ms)", "headrace.worker.tasks.sink.client"))
    assert repeated.filter(line("no answer (after 0ms)", "kafka.net.manager"))
    assert not repeated.filter(line("no answer (after 1ms)", "kafka.net.manager"))
    now = 9.9
    assert not repeated.filter(line("no answer (after 0ms)"))
    now = 10.0
    assert repeated.filter(line("no answer (after 0ms)"))
    assert not repeated.filter(line("no answer (after 0ms)"))


def test_what_others_say_passes() -> None:
    repeated = Repeated()
    assert all(repeated.filter(line("again", "headrace.worker.tasks.task")) for _ in range(3))
