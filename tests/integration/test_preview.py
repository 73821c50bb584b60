"""Previews in a real worker: they equal what is then written, and change nothing."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.integration.previewing import Previewing, Surroundings
from tests.integration.worker_process import WorkerProcess

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

FILE = "FileStreamSource"
STRING = "org.apache.kafka.connect.storage.StringConverter"
T = "org.apache.kafka.connect.transforms."


@pytest.fixture
def previewing(worker: WorkerProcess, broker: str, registry: str, tmp_path: Path) -> Previewing:
    return Previewing(Surroundings(worker, broker, [tmp_path], registry))


def chain(*transforms: dict[str, str], **predicates: dict[str, str]) -> dict[str, str]:
    """The settings of these transforms in their order."""
    made = {"transforms": ",".join(f"t{number}" for number, _ in enumerate(transforms))}
    made |= {f"transforms.t{n}.{key}": value for n, one in enumerate(transforms) for key, value in one.items()}
    if predicates:
        made["predicates"] = ",".join(predicates)
        made |= {f"predicates.{alias}.{key}": value for alias, one in predicates.items() for key, value in one.items()}
    return made


HOIST = {"type": f"{T}HoistField$Value", "field": "line"}
SOURCES: dict[str, dict[str, str]] = {
    "plain": {},
    "string": {"value.converter": STRING},
    "static": chain(HOIST, {"type": f"{T}InsertField$Value", "static.field": "from", "static.value": "file"}),
    "routed": chain({"type": f"{T}RegexRouter", "regex": "(.*)", "replacement": "$1-routed"}),
    "filtered": chain(
        HOIST,
        {"type": f"{T}Filter", "predicate": "second"},
        second={"type": "headrace.predicates.Sql", "condition": "value.line = 'two'"},
    ),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_files_lines_are_written_as_previewed(name: str, previewing: Previewing, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\nthree\n")
    topic = f"preview-{name}-{uuid.uuid4().hex[:8]}"
    config = {
        "name": topic,
        "connector.class": FILE,
        "file": str(lines),
        "topic": topic,
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        **SOURCES[name],
    }
    answer = previewing.written_as_previewed(config)
    assert len(answer["records"]) == 3
