"""The REST calls recorded from Apache Kafka Connect 4.3.1 (`vectors/rest.json`), in their order, against any worker.

`python -m tests.compat.rest_steps http://127.0.0.1:8083 [distributed|standalone] [folder]` compares a worker that runs;
it may have no connectors, and the folder must be one that it can write to.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from tests.compat.advice import without_advice

VECTORS: Final = Path(__file__).parent / "vectors" / "rest.json"

_SETTLE_SECONDS: Final = 60.0

MASKED: Final = {"worker_id", "trace", "kafka_cluster_id", "version", "commit", "last_modified", "documentation"}
"""Members that differ from run to run."""

_STANDALONE: Final = "a standalone worker has no cluster"
_NO_EXACTLY_ONCE: Final = "recorded with exactly.once.source.support=enabled, which is not served yet"
_UNSUPPORTED: Final = (
    "Connector configuration is invalid and contains the following 1 error(s):\n"
    "This worker does not have exactly-once source support enabled.\n"
    "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
)

OTHERWISE: Final[Mapping[str, Mapping[str, tuple[str, Mapping[str, Any]]]]] = {
    "distributed": {
        "eos required ok?": (
            _NO_EXACTLY_ONCE,
            {"status": 400, "body": {"name": None, "type": None, "error_code": 400, "message": _UNSUPPORTED}},
        ),
        "eos boundary connector": (_NO_EXACTLY_ONCE, {"status": 400}),
        "delete eos": (_NO_EXACTLY_ONCE, {"status": 404}),
    },
    "standalone": {
        "unknown connector stop": (
            "as Apache's standalone worker but with the 404 of the distributed one",
            {"status": 404, "body": {"error_code": 404, "message": "Unknown connector none"}},
        ),
        "internal tasks unsigned": (_STANDALONE, {"status": 500, "body": {"error_code": 500}}),
        "internal fence unsigned": (_STANDALONE, {"status": 500, "body": {"error_code": 500}}),
        "eos boundary connector": (
            "a standalone worker does not check exactly-once support",
            {"status": 201, "location": "/connectors/eos2"},
        ),
    },
}
"""By mode, the steps that are answered in another way, why, and what is to be answered."""

BEYOND: Final = ("headrace.", "io.apicurio.", "io.confluent.", "io.debezium.")
"""The beginnings of the classes that a worker offers beside those that the recorded one had."""


@dataclass
class Comparison:
    """The outcome of the steps."""

    passed: list[str] = field(default_factory=list)
    different: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join([*self.different, f"{len(self.passed)} passed, {len(self.different)} differ"])


def steps() -> list[dict[str, Any]]:
    """All steps."""
    found: list[dict[str, Any]] = json.loads(VECTORS.read_text(encoding="utf-8"))
    return found


def compare(base_url: str, mode: str, folder: Path, wait_seconds: float = 60) -> Comparison:
    """All steps were taken; `folder` has the file `in.txt` that the source of the steps reads."""
    (folder / "in.txt").write_text("0123456789abcdef\n" * 2)
    result = Comparison()
    with httpx.Client(base_url=base_url, timeout=100) as client:
        for step in steps():
            if step["name"] in OTHERWISE[mode] or "better" in step:  # what it waits for, Apache's alone answers
                step = {key: value for key, value in step.items() if key != "until"}
            _, otherwise = OTHERWISE[mode].get(step["name"], ("", expected(step)))
            wanted = mask(otherwise, str(folder))
            began = time.monotonic()
            while True:
                seen = reduced(ask(client, step, str(folder), wait_seconds), step, mode, str(folder))
                seen = {key: value for key, value in seen.items() if key in wanted}
                # What a step waits for may hold while a later change is still on its way, with a fast worker.
                if seen == wanted or "until" not in step or time.monotonic() > began + _SETTLE_SECONDS:
                    break
                time.sleep(0.05)
            if seen == wanted:
                result.passed.append(step["name"])
                continue
            texts = (json.dumps(one)[:3000] for one in (wanted, seen))
            lines = [f"   {kind} {text}" for kind, text in zip(("expected", "got     "), texts, strict=True)]
            result.different.append("\n".join([f"{step['name']} ({time.monotonic() - began:.1f} s)", *lines]))
    return result


def expected(step: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer that a step is due. If Apache's is a defect: a better status, and an error in its shape."""
    if "better" in step:
        return {"status": step["better"], "error_code": step["better"]}
    wanted: dict[str, Any] = step["expect"]
    return wanted


def ask(client: httpx.Client, step: Mapping[str, Any], folder: str, wait_seconds: float) -> dict[str, Any]:
    """The answer; a step that says what it waits for is repeated until it comes or the time is up."""
    body = step.get("raw", json.dumps(step["body"]) if "body" in step else None)
    headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body is not None else {})
    deadline = time.monotonic() + wait_seconds
    while True:
        answer = client.request(
            step["method"],
            step["path"].replace("{dir}", folder),
            content=body and body.replace("{dir}", folder),
            headers=headers | step.get("headers", {}),
        )
        got = {"status": answer.status_code, "body": answer.json() if answer.content else None}
        if time.monotonic() > deadline or all(dig(got, k) == v for k, v in step.get("until", {}).items()):
            break
        time.sleep(0.05)
    if "location" in answer.headers:
        got["location"] = re.sub(r"^https?://[^/]+", "", answer.headers["location"])
    return got


def reduced(got: dict[str, Any], step: Mapping[str, Any], mode: str, folder: str) -> dict[str, Any]:
    """Return the part of an answer that is compared."""
    body = mask(got["body"], folder)
    if "better" in step:
        return {**got, "error_code": body["error_code"] if list(body) == ["error_code", "message"] else body}
    if "keep" in step:
        body = {path: dig(body, path) for path in step["keep"]}
    elif mode == "standalone" and got["status"] == 201:
        body["tasks"] = []  # a standalone worker answers once the tasks are made, a distributed one before
    return {**got, "body": body}


def mask(value: Any, folder: str) -> Any:
    """The value without what differs from run to run."""
    if isinstance(value, dict):
        # A file's offset says the line too, where Apache's has the position alone.
        kept = {k: v for k, v in value.items() if not ("position" in value and k == "line")}
        return {k: "<masked>" if k in MASKED and v is not None else mask(v, folder) for k, v in kept.items()}
    if isinstance(value, list):
        return [mask(item, folder) for item in value if not (isinstance(item, str) and item.startswith(BEYOND))]
    return without_advice(value.replace(folder, "{dir}")) if isinstance(value, str) else value


def dig(value: Any, path: str) -> Any:
    """Return the value at the dotted path; None if there is nothing."""
    for part in path.split("."):
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return value


def main(base_url: str, mode: str = "distributed", folder: str | None = None) -> int:
    """The comparison is printed; 1 where something differs."""
    result = compare(base_url, mode, Path(folder or tempfile.mkdtemp()))
    print(result)
    return 1 if result.different else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
