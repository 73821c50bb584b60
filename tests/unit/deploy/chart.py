"""The chart as helm rendered it, and what helm said to values that are refused.

No registry of Python has helm, so `record_chart.py` recorded it. A change of the chart asks for a new recording.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

CHART: Final = Path(__file__).parents[3] / "deploy" / "helm" / "headrace"
FOLDER: Final = Path(__file__).with_name("chart")
SAID: Final = FOLDER / "said.json"


class Case(NamedTuple):
    """A release with its name, and the values that are laid over those of the chart."""

    release: str
    values: dict[str, Any]


OWN: Final[dict[str, Any]] = {
    "image": "registry.example.com/headrace:1",
    "replicas": 3,
    "properties": {
        "bootstrap.servers": "kafka:9093",
        "offset.flush.interval.ms": 10000000,
        "scheduled.rebalance.max.delay.ms": None,
        "task.restart.enabled": False,
        "producer.sasl.jaas.config": 'org.example.Login required password="${dir:/run/secrets/headrace:p}";',
        "spark.driver.extraJavaOptions": "  -Da=C:\\ü€ ",
    },
    "secretName": "own",
    "serviceAccount": "reader",
    "resources": None,
    "scratchSize": "10Gi",
    "env": [{"name": "CONNECT_LOG4J_ROOT_LOGLEVEL", "value": "WARN"}],
    "pod": {
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "connect", "operator": "Exists"}],
        "priorityClassName": "high",
        "securityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None},
    },
    "networkPolicy": False,
}
SECURE: Final[dict[str, Any]] = {
    "properties": {
        "listeners": "https://:8083",
        "listeners.https.ssl.keystore.location": "/run/secrets/headrace/worker.pem",
        "rest.basic.auth.users.file": "/run/secrets/headrace/users.properties",
        "task.shutdown.graceful.timeout.ms": 60500,
    },
    "labels": {"release": "prometheus"},
    "serviceMonitor": True,
}
CASES: Final = {
    "default": Case("c", {}),
    "as-manifests": Case("headrace", {"serviceMonitor": True}),
    "own": Case("c", OWN),
    "secure": Case("c", SECURE),
    "named-true": Case("true", {"labels": {"team": "1"}, "replicas": 1}),
}
REFUSED: Final = {
    "misspelt": Case("c", {"replica": 3}),
    "misspelt-of-pod": Case("c", {"pod": {"nodeselector": {}}}),
    "text-for-bool": Case("c", {"networkPolicy": "no"}),
    "dots": Case("c", {"properties": {"group": {"id": "x"}}}),
    "list": Case("c", {"properties": {"config.providers": ["dir", "env"]}}),
    "long": Case("c", {"properties": {"a.ms": 2**63 - 1}}),
    "bell": Case("c", {"properties": {"a": "\a"}}),
    "line-in-a-name": Case("c", {"properties": {"a\nb": "1"}}),
    "port": Case("c", {"properties": {"listeners": "http://:8080"}}),
    "monitor": Case("c", {"properties": {"metrics.listeners": None}, "serviceMonitor": True}),
    "number-for-text": Case("c", {"env": [{"name": "A", "value": 3}]}),
    "bytes": Case("c", {"scratchSize": "4"}),
    "digit": Case("12345", {}),
    "dotted": Case("a.b", {}),
    "long-name": Case("a" * 53, {}),
}


def rendered(case: str) -> list[dict[str, Any]]:
    """The objects of a case."""
    return copy.deepcopy(_read(case))


@functools.cache
def _read(case: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / f"{case}.yaml").read_text()))


def said() -> dict[str, Any]:
    """Notes and refusals by their cases, and the digest that they are recorded from."""
    found: dict[str, Any] = json.loads(SAID.read_text())
    return found


def digest() -> str:
    """A digest of all that a recording depends on, but for helm."""
    files = [(str(one.relative_to(CHART)), one.read_text()) for one in sorted(CHART.rglob("*")) if one.is_file()]
    return hashlib.sha256(json.dumps([files, CASES, REFUSED]).encode()).hexdigest()
