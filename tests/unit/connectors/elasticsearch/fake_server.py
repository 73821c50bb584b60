"""An Elasticsearch of a few lines, with versions, that fails on command.

It has what OpenSearch of the integration tests cannot show: Elasticsearch's header, errors by item, other products.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from headrace.plugins.testkit import HttpOutside, Request

Fault = Callable[[str, str, Mapping[str, Any]], tuple[int, str, str] | None]
"""Says of an action, an id and a document with which status, type and reason it fails; None: it does not."""


class FakeServer(HttpOutside):
    """One node; documents are kept by index and id, with their versions."""

    def __init__(self) -> None:
        super().__init__()
        self.root: Any = {"version": {"number": "2.19.3", "distribution": "opensearch"}}
        self.indices: dict[str, dict[str, Any]] = {}
        self.mappings: dict[str, Any] = {}
        self.versions: dict[tuple[str, str], int] = {}
        self.requests: list[Request] = []
        self.fault: Fault = lambda action, key, document: None
        self.whole: Callable[[Request], tuple[int, Any] | None] = lambda request: None
        """Answers a bulk request in place of the node."""

    @property
    def bulks(self) -> list[list[str]]:
        """The ids of each bulk request."""
        return [
            [one["_id"] for line in request.body.decode().split("\n")[:-1] if (one := _action(line)) is not None]
            for request in self.requests
            if request.path == "/_bulk"
        ]

    def answer(self, request: Request) -> Any:
        """The node's answer."""
        self.requests.append(request)
        if request.path == "/":
            return self.root
        if request.path == "/_bulk":
            return self.whole(request) or self._bulk(request.body.decode())
        name, _, rest = request.path.removeprefix("/").partition("/")
        if name.startswith("_"):
            name = rest
        if request.method == "PUT":
            return self._put(name, rest, request)
        if name not in self.indices:
            return 404, {"error": {"type": "index_not_found_exception", "reason": f"no such index [{name}]"}}
        return {name: {"mappings": self.mappings.get(name, {})}}

    def _put(self, name: str, rest: str, request: Request) -> Any:
        body = request.json() if request.body else {}
        if rest == "_mapping":
            self.mappings[name] = body
        elif name in self.indices:
            return 400, {"error": {"type": "resource_already_exists_exception", "reason": f"[{name}]"}}
        else:
            self.indices[name] = {}
            self.mappings[name] = body.get("mappings", {})
        return {"acknowledged": True}

    def _bulk(self, body: str) -> Any:
        lines = iter(body.split("\n")[:-1])
        items = []
        for line in lines:
            ((action, told),) = json.loads(line).items()
            document = json.loads(next(lines)) if action != "delete" else {}
            items.append({action: self._item(action, told, document)})
        return {"errors": any("error" in item for one in items for item in one.values()), "items": items}

    def _item(self, action: str, told: Mapping[str, Any], document: Any) -> dict[str, Any]:
        key = (told["_index"], told.get("_id") or f"made-{len(self.requests)}-{len(self.indices[told['_index']])}")
        fault = self.fault(action, key[1], document)
        if fault is None and document in [{"value": one} for one in self.refused]:
            fault = 400, "mapper_parsing_exception", "failed to parse field [value] of type [text]: 'secret'"
        if fault is None:
            fault = self._conflict(key, told.get("version"))
        if fault is not None:
            return {"status": fault[0], "error": {"type": fault[1], "reason": fault[2]}}
        return {"status": self._write(action, key, told.get("version"), document)}

    def _conflict(self, key: tuple[str, str], version: int | None) -> tuple[int, str, str] | None:
        current = self.versions.get(key)
        if version is None or current is None or version > current:
            return None
        there = f"current version [{current}]"
        reason = f"[{key[1]}]: version conflict, {there} is higher or equal to the one provided [{version}]"
        return 409, "version_conflict_engine_exception", reason

    def _write(self, action: str, key: tuple[str, str], version: int | None, document: Any) -> int:
        index, name = key
        self.versions[key] = self.versions.get(key, 0) + 1 if version is None else version
        if action == "delete":
            return 404 if self.indices[index].pop(name, None) is None else 200
        if action == "update":
            self.indices[index].setdefault(name, {}).update(document["doc"])
            return 200
        self.indices[index][name] = document
        return 201


def _action(line: str) -> dict[str, Any] | None:
    for action, told in json.loads(line).items():
        if action in ("index", "create", "update", "delete") and isinstance(told, dict) and "_index" in told:
            return {"_id": None, **told}
    return None
