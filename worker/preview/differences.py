"""The differences between what two configs do to the same records, field by field."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from headrace.worker.preview.model import Difference, Preview, PreviewedRecord, Stage

_ABSENT: Any = object()


_OF_STAGE: Final = ("topic", "partition", "timestamp", "key", "value", "headers", "key_schema", "value_schema")


def compared(before: Preview, after: Preview) -> Preview:
    """Return `after`, each record with its differences from the record of `before` with the same origin."""
    origins = defaultdict[str, deque[PreviewedRecord]](deque)
    for one in before.records:
        origins[_origin(one)].append(one)
    records, alone = [], 0
    for one in after.records:
        partners = origins[_origin(one)]
        alone += not partners
        found = [*_differences(partners.popleft(), one)] if partners else None
        records.append(replace(one, differences=found))
    notes = [f"{alone} records were not read by the config before, and cannot be compared."] if alone else []
    return replace(after, records=records, notes=[*after.notes, *notes])


def _origin(record: PreviewedRecord) -> str:
    at = record.topic, record.partition, record.offset
    return json.dumps([*at, record.source_partition, record.source_offset], sort_keys=True, default=str)


def _differences(before: PreviewedRecord, after: PreviewedRecord) -> Iterator[Difference]:
    found = list(_between("", _end(before), _end(after)))
    yield from found
    if not found:  # the bytes of other values differ anyway
        yield from _between("written", _bytes(before), _bytes(after))


def _end(record: PreviewedRecord) -> dict[str, Any]:
    """The end of a record's way: the values of Connect, the schemas for a registry, and what is done with it."""
    told: dict[str, Any] = {"filtered": record.filtered, "error": record.error and asdict(record.error)}
    if record.error is None and record.filtered is None:
        of_connect = [one for one in record.stages if not _is_bytes(record, one)]
        last = asdict(of_connect[-1]) if of_connect else {}
        told |= {name: last.get(name) for name in _OF_STAGE}
        told |= {f"{side}.subject": asdict(one) for stage in record.stages for side, one in stage.registered.items()}
    return told | {"effects": [asdict(effect) for effect in record.effects]}


def _is_bytes(record: PreviewedRecord, stage: Stage) -> bool:
    """True for Kafka's bytes: what a sink fetched, and what a source's converters made."""
    return stage.stage in ("fetched", "written") or (stage.stage == "converted" and record.topic is None)


def _bytes(record: PreviewedRecord) -> dict[str, Any]:
    written = [one for one in record.stages if one.stage == "written"]
    return {"key": written[-1].key, "value": written[-1].value} if written else {}


def _between(path: str, before: Any, after: Any) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in dict.fromkeys((*before, *after)):
            inner = f"{path}.{name}" if path else name
            yield from _between(inner, before.get(name, _ABSENT), after.get(name, _ABSENT))
    elif _is_list(before) and _is_list(after) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _between(f"{path}[{number}]", old, new)
    elif before is not after and (before != after or type(before) is not type(after)):
        yield Difference(path, None if before is _ABSENT else before, None if after is _ABSENT else after)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
