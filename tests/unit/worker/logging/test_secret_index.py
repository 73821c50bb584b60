"""Owners of secrets are found by what stands in a text."""

from __future__ import annotations

import pytest

from headrace.worker.logging import secret_index
from headrace.worker.logging.secret_index import SecretIndex


class Owner:
    """Of secrets."""


def test_owners_are_found_by_forms_of_any_length_that_of_the_longest_first() -> None:
    index, short, long = SecretIndex[Owner](), Owner(), Owner()
    index.add(short, 1, ["ab", "hunter2", ""])
    index.add(long, 1, ["hunter2-000", "zzzz"])
    assert index.find("as hunter2-000") == [long, short]
    assert index.find("a cab") == [short]
    assert index.find("hunter1") == index.find("") == []


def test_of_owners_that_are_alike_one_that_is_in_use_is_found() -> None:
    index, owners = SecretIndex[Owner](), [Owner() for _ in range(3)]
    for owner in owners:
        index.add(owner, "alike", ["hunter2"])
    index.add(other := Owner(), "unlike", ["hunter2"])
    assert len(index.find("hunter2")) == 2
    del owners[:2], owner
    assert set(index.find("hunter2")) == {owners[0], other}


def test_owners_that_are_no_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_index, "_FEWEST", 10)
    index, kept = SecretIndex[Owner](), Owner()
    index.add(kept, 1, ["hunter2"])
    for n in range(1_000):
        index.add(Owner(), 1, [f"{n:04d}"])
    assert len(index._forms) < 100
    assert index.find("hunter2") == [kept]
