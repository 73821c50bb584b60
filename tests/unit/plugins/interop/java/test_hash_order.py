"""Java's order of texts in a HashMap, beside what a JVM gave."""

from __future__ import annotations

import pytest

from headrace.plugins.interop.java.hash_order import hash_ordered

THIRTY = (
    "col18 col17 col16 col15 col14 col13 col12 col11 col19 col8 col9 col6 col21 col7 col20 col4 col5 col2 col3 col0 "
    "col1 col29 col28 col27 col26 col25 col24 col23 col22 col10"
)
GIVEN = "EventUuid _ObjectType ReplayId CreatedById CreatedDate Message__c _EventType a b c d e f g h"
MIXED = "a b c d e f EventUuid _EventType g h CreatedById ReplayId Message__c CreatedDate _ObjectType"


@pytest.mark.parametrize(
    ("added", "listed"),
    [
        ([f"col{number}" for number in range(30)], THIRTY.split()),
        (
            GIVEN.split(),
            MIXED.split(),
        ),
        (["before", "after", "source", "op", "op"], ["op", "before", "after", "source"]),
        ([], []),
    ],
)
def test_texts_are_listed_as_by_java(added: list[str], listed: list[str]) -> None:
    assert hash_ordered(added) == listed
