"""Checks of JSON texts as whole arrays, because Arrow's parser ends the process for some texts that are no objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MOST_DEPTH: Final = 100
"""The deepest nesting of a value."""
_STRING: Final = r'"(?:[^"\\]|\\.)*"'
_OBJECT: Final = r"^\s*\{(?s:.*)\}\s*$"
_LONG_WHOLE: Final = r"(?:^|[^\d.eE+\-])-?\d{16,}(?:[^\d.eE]|$)"
_LONG: Final = r"[\d.]{19,}"
_STEPS: Final = np.zeros(256, np.int8)
_STEPS[[ord("{"), ord("[")]] = 1
_STEPS[[ord("}"), ord("]")]] = -1


@dataclass(frozen=True)
class CheckedTexts:
    """What is known of JSON texts before they are parsed."""

    refused: dict[int, str]
    """The reasons why texts cannot be read, by their indexes."""
    long_wholes: np.ndarray
    """True for texts with a whole number that a double may not hold."""
    long_numbers: np.ndarray
    """True for texts with any number that a double may not hold."""
    members: np.ndarray
    """The count of members of all objects in a text."""

    @classmethod
    def of(cls, texts: pa.Array) -> CheckedTexts:
        """Look at the texts; none is null."""
        bare = pc.replace_substring_regex(texts, _STRING, "")
        wholes = _true(pc.match_substring_regex(bare, _LONG_WHOLE))
        numbers = wholes | _true(pc.match_substring_regex(bare, _LONG))
        return cls(_refused(bare), wholes, numbers, pc.count_substring(bare, ":").to_numpy())


def count_names(texts: pa.Array) -> int:
    """Return the count of names of members, each once, in all texts; more if strings look like names."""
    before = pc.split_pattern_regex(texts, r'"\s*:').flatten()
    return int(pc.count_distinct(pc.replace_substring_regex(before, r'(?s)^.*"', "")).as_py())


def _true(mask: pa.Array) -> np.ndarray:
    return np.asarray(mask.to_numpy(zero_copy_only=False))


def _refused(bare: pa.Array) -> dict[int, str]:
    """The texts, given without their strings, that are not one object each, or too deep."""
    is_object = _true(pc.match_substring_regex(bare, _OBJECT)) & ~_true(pc.match_substring(bare, '"'))
    refused = dict.fromkeys(np.flatnonzero(~is_object).tolist(), "The value is not a JSON object")
    places = np.flatnonzero(is_object)
    if not len(places):
        return refused
    some = bare if len(places) == len(bare) else bare.take(pa.array(places))
    offsets = np.frombuffer(some.buffers()[1], np.int32)[some.offset : some.offset + len(some) + 1].astype(np.int64)
    data = np.frombuffer(some.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    steps, begins = _STEPS[data], offsets[:-1] - offsets[0]
    depths = np.cumsum(steps, dtype=np.int32)
    before = np.concatenate([[0], depths[offsets[1:-1] - offsets[0] - 1]])
    deepest = np.maximum.reduceat(depths, begins) - before
    inner = depths - np.repeat(before, np.diff(offsets))
    ends = np.add.reduceat((inner == 0) & (steps < 0), begins)
    lowest = np.minimum.reduceat(inner, begins)
    refused |= dict.fromkeys(places[(ends != 1) | (lowest < 0)].tolist(), "The value is not one JSON object")
    too_deep = f"The value is nested deeper than {MOST_DEPTH} levels"
    return refused | dict.fromkeys(places[deepest > MOST_DEPTH].tolist(), too_deep)
