from __future__ import annotations

from contextlib import ExitStack

from headrace.worker.tasks.poll_interval import PollInterval


def test_many_sources_are_asked_more_rarely_each_but_twice_a_second() -> None:
    pace = PollInterval()
    with ExitStack() as sources:
        for count, longest_s in ((20, 0.1), (60, 0.3), (100, 0.5), (1000, 0.5)):
            while pace.sources < count:
                sources.enter_context(pace.source())
            assert pace.longest_s == longest_s
    assert pace.longest_s == 0.1
