"""Functions that the worker finds by their names in a plan."""

from __future__ import annotations

import pickle
from operator import neg

import pytest

from headrace.plugins.interop.catalyst.arrow_functions import ArrowFunction, function_named


def test_each_is_found_by_a_name_of_its_own() -> None:
    one, other = ArrowFunction(neg), ArrowFunction(neg)
    assert one != other
    assert (function_named(one.__name__), function_named(other.__name__)) == (one, other)
    assert pickle.loads(pickle.dumps(one)).run is neg
    with pytest.raises(TypeError, match="bad operand"):
        next(one(iter([None])))
