"""The rule by which the oracle tests take two texts for the same JSON."""

from __future__ import annotations

import pytest

from tests.compat.json_meaning import meaning


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (b'{"a":1,"b":{"c":1,"d":2}}', b'{"b":{"d":2,"c":1},"a":1}', True),
        (b'{"a":1.0}', b'{"a":1.00}', False),
        (b'{"a":1.0}', b'{"a":1e0}', False),
        (b'"\\u00e9"', '"é"'.encode(), False),
        (b'"\\/"', b'"/"', False),
        (b'"a\\\\\\"b"', b'"a\\\\\\"b"', True),
        (b'{"a":1,"a":1}', b'{"a":1}', False),
        (b"[1,2]", b"[2,1]", False),
        (b"[1, 2]", b"[1,2]", False),
        (b'[1,"1"]', b'["1",1]', False),
        (b"no JSON", b"no JSON", True),
        (b"null", None, False),
        (
            b'{"schema":{"type":"map","keys":{"type":"int32"},"values":{"type":"int8"}},"payload":[[1,2],[3,4]]}',
            b'{"schema":{"type":"map","keys":{"type":"int32"},"values":{"type":"int8"}},"payload":[[3,4],[1,2]]}',
            True,
        ),
        (
            b'{"schema":{"type":"struct","fields":[{"type":"int8","field":"q\\"\\u00e9"}]},'
            b'"payload":{"q\\"\\u00e9":1}}',
            b'{"schema":{"type":"struct","fields":[{"type":"int8","field":"q\\"\\u00e9"}]},'
            b'"payload":{"q\\"\\u00e9":2}}',
            False,
        ),
        (
            b'{"schema":{"type":"struct","fields":[{"type":"int8","field":"a"},{"type":"int8","field":"b"}]},'
            b'"payload":{"a":1,"b":2}}',
            b'{"schema":{"type":"struct","fields":[{"type":"int8","field":"a"},{"type":"int8","field":"b"}]},'
            b'"payload":{"b":2,"a":1}}',
            False,
        ),
    ],
)
def test_only_the_order_of_members_may_differ(one: bytes, other: bytes | None, same: bool) -> None:
    assert (meaning(one) == meaning(other)) is same
