"""Records the schemas that the manifests are held against: `python -m tests.unit.deploy.record_schemas FOLDER`.

FOLDER is where the package kubernetes-validate was unpacked, which with all versions of Kubernetes has 72 MB. Kept are
the oldest and the newest version in it, the kinds that `deploy/` has, and of these neither texts nor defaults.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

KINDS: Final = {
    "ConfigMap": "configmap-v1",
    "NetworkPolicy": "networkpolicy-networking-v1",
    "PodDisruptionBudget": "poddisruptionbudget-policy-v1",
    "Service": "service-v1",
    "StatefulSet": "statefulset-apps-v1",
}
VERSIONS: Final = ("1.25", "1.37")
FOLDER: Final = Path(__file__).with_name("schemas")
_REF: Final = "#/$defs/"


def main() -> None:
    """Write a file for each version."""
    source = Path(sys.argv[1]) / "kubernetes_validate" / "kubernetes-json-schema"
    for version in VERSIONS:
        found = source / f"v{version}.0-local-strict"
        everything = json.loads((found / "_definitions.json").read_text())["$defs"]
        kinds = {kind: _bare(json.loads((found / f"{file}.json").read_text())) for kind, file in KINDS.items()}
        needed: dict[str, Any] = {}
        _collect(kinds, everything, needed)
        written = json.dumps({"$defs": {**needed, **kinds}}, sort_keys=True, separators=(",", ":"))
        (FOLDER / f"kubernetes-{version}.json").write_text(written + "\n")


def _collect(part: Any, everything: Mapping[str, Any], needed: dict[str, Any]) -> None:
    """Add all definitions that a part refers to."""
    for name in _references(part):
        if name not in needed:
            needed[name] = _bare(everything[name])
            _collect(needed[name], everything, needed)


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_REF)
            else:
                yield from _references(value)
    elif isinstance(part, list):
        for one in part:
            yield from _references(one)


def _bare(part: Any) -> Any:
    """The part without texts for people, with references into its own file."""
    if isinstance(part, list):
        return [_bare(one) for one in part]
    if not isinstance(part, dict):
        return part
    found = {}
    for key, value in part.items():
        if key.startswith("x-kubernetes") or (
            key in ("description", "$id", "$schema", "default") and not isinstance(value, dict)
        ):
            continue
        if key == "$ref" and isinstance(value, str):
            value = _REF + value.rpartition("/")[2]
        found[key] = _bare(value)
    return found


if __name__ == "__main__":
    main()
