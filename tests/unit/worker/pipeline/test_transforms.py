"""Transforms of two connectors are the same if their classes and settings are."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from headrace.plugins.interop.discovery import Plugins
from headrace.worker.pipeline.transforms import Transforms

HOIST = "org.apache.kafka.connect.transforms.HoistField$Value"
HEADER = "org.apache.kafka.connect.transforms.HeaderFrom$Value"
HAS = "org.apache.kafka.connect.transforms.predicates.HasHeaderKey"


def made(config: dict[str, str], headers: Hashable | None = "simple") -> Transforms:
    header_bytes: Any = None
    made = Transforms.of(config, Plugins.shipped(), header_bytes, {"python.transforms.allowed": ["json"]})
    return replace(made, headers_key=headers)


def chain(**more: str) -> dict[str, str]:
    config = {
        "transforms": "a,b",
        "transforms.a.type": HOIST,
        "transforms.a.field": "f",
        "transforms.b.type": HEADER,
        "transforms.b.fields": "f",
        "transforms.b.headers": "h",
        "transforms.b.operation": "copy",
        "transforms.b.predicate": "p",
        "predicates": "p",
        "predicates.p.type": HAS,
        "predicates.p.name": "x",
    }
    return {**config, **{key.replace("_", "."): value for key, value in more.items()}}


def test_equal_settings_have_equal_keys_and_others_have_not() -> None:
    same = made(chain()).expression_key
    assert same is not None
    assert made({"name": "other", "topics": "t", **chain()}).expression_key == same
    others = [
        made(chain(transforms="b,a")),
        made(chain(transforms="a")),
        made(chain(transforms_a_field="g")),
        made(chain(transforms_a_type=HOIST.replace("Value", "Key"))),
        made(chain(transforms_b_negate="true")),
        made(chain(predicates_p_name="y")),
        made(chain(), headers="others"),
        made({}),
    ]
    keys = [same, *(other.expression_key for other in others)]
    assert None not in keys
    assert len(set(keys)) == len(keys)


def test_what_is_not_settled_has_no_key() -> None:
    own = {"transforms_c_type": "headrace.transforms.Python", "transforms_c_function": "json:loads"}
    assert made(chain(transforms="a,c", **own)).expression_key is None
    assert made(chain(), headers=None).expression_key is None
    assert made({}, headers=None).expression_key is None
