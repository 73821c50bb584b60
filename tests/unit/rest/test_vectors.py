"""The recorded REST calls against the standalone herder, without Kafka and engine: all but what these alone can tell.

`tests/compat/test_rest_vectors.py` takes every step against workers that run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.compat import rest_steps

NEEDS_KAFKA: Final = (
    "topics of source",
    "loggers",  # the recorded worker logged from WARN on
    "logger root",
    "sink alter offsets",
    "sink delete offsets",
)


def test_answers_as_recorded(worker: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [step for step in rest_steps.steps() if step["name"] not in NEEDS_KAFKA]
    monkeypatch.setattr(rest_steps, "steps", lambda: left)
    result = rest_steps.compare(worker.url, "standalone", tmp_path, wait_seconds=60)
    assert not result.different, str(result)
    assert len(result.passed) > 120
