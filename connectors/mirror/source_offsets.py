"""Checks the offsets that an operator sets for a mirror connector, in Apache's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headrace.config.values import as_text

_INT_MAX = 2**31 - 1


class OffsetError(ValueError):
    """Offsets that a mirror connector cannot have."""


def check_offsets(
    offsets: Mapping[str, Any], texts: Sequence[str], has_partition: bool = True, only_zero: bool = True
) -> bool:
    """Checks offsets, given as in the body of `PATCH /connectors/{name}/offsets`; returns True. Errors: OffsetError.

    `texts`: the members of a source partition that are strings; `has_partition`: true if it has a partition's number,
    too; `only_zero`: true if an offset can only be 0. A null offset is free to any source partition.
    """
    for item in offsets.get("offsets") or ():
        partition, offset = item.get("partition"), item.get("offset")
        if offset is None:
            continue
        if partition is None:
            raise OffsetError("Source partitions may not be null")
        for name in texts:
            _check_member(partition, name)
            if not isinstance(partition[name], str):
                raise _wrong(partition, name, ", which must be a string")
        if has_partition:
            _check_number(partition)
        _check_offset(partition, offset, only_zero)
    return True


def _check_member(partition: Mapping[str, Any], name: str) -> None:
    if name not in partition:
        raise OffsetError(f"Source partition {_shown(partition)} is missing the '{name}' key, which is required")


def _check_number(partition: Mapping[str, Any]) -> None:
    _check_member(partition, "partition")
    number = partition["partition"]
    if not _is_integer(number) or number > _INT_MAX:
        raise _wrong(partition, "partition", ", which must be an integer")
    if number < 0:
        raise _wrong(partition, "partition", ", which cannot be negative")


def _check_offset(partition: Mapping[str, Any], offset: Mapping[str, Any], only_zero: bool) -> None:
    about = f"Source offset {_shown(offset)} for source partition {_shown(partition)}"
    if "offset" not in offset:
        raise OffsetError(f"{about} is missing the 'offset' key, which is required")
    number = offset["offset"]
    invalid = f"{about} has an invalid value {_value(number)} for the 'offset' key"
    if not _is_integer(number):
        raise OffsetError(f"{invalid}, which must be an integer")
    if only_zero and number != 0:
        raise OffsetError(f"{invalid}; the only accepted value is 0")
    if number < 0:
        raise OffsetError(f"{invalid}, which cannot be negative")


def _wrong(partition: Mapping[str, Any], name: str, why: str) -> OffsetError:
    value = _value(partition[name])
    return OffsetError(f"Source partition {_shown(partition)} has an invalid value {value} for the '{name}' key{why}")


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(members: Mapping[str, Any]) -> str:
    """Prints a map as Java does."""
    return "{" + ", ".join(f"{name}={_value(value)}" for name, value in members.items()) + "}"


def _value(value: Any) -> str:
    return "null" if value is None else as_text(value) or ""
