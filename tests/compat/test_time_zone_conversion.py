"""Debezium's TimezoneConverter against its own jar."""

from __future__ import annotations

from typing import Any, Final

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.config.problems import ConfigError
from headrace.plugins.transforms.time_zone_conversion import TimezoneConverter
from tests.compat.test_new_record_state import KEEPS_NULLS, OP, OTHERS, crashes, documents, event, named, schema, struct
from tests.compat.test_outbox import settings_of
from tests.compat.transform_oracle import Chain, Chains, Link, Record

pytestmark = pytest.mark.spark

NAME: Final = "io.debezium.transforms.TimezoneConverter"
TIME: Final = "io.debezium.time."
CONNECT: Final = "org.apache.kafka.connect.data."
ROW: Final = struct(
    schema("string", "zoned", name=f"{TIME}ZonedTimestamp", version=1),
    schema("int64", "ms", name=f"{TIME}Timestamp", version=1),
    schema("int64", "us", name=f"{TIME}MicroTimestamp", version=1, default=5),
    schema("int64", "ns", name=f"{TIME}NanoTimestamp", version=1),
    schema("int64", "at", name=f"{CONNECT}Timestamp", version=1),
    schema("int32", "day", name=f"{TIME}Date", version=1),
    schema("int64", "plain"),
    name="s.t.Value",
)
SOURCE: Final = struct(
    schema("string", "table"), schema("int64", "ts_ms"), schema("int64", "ts_ns"), name="x.Source", field="source"
)
ENVELOPE: Final = event(named(ROW, "before"), named(ROW, "after"), SOURCE, OP, name="s.t.Envelope")
SUMMER, WINTER = 1_720_000_000_123, 1_705_000_000_456


def row(ms: int, zoned: str) -> dict[str, Any]:
    return {"zoned": zoned, "ms": ms, "us": ms * 1000 + 1, "ns": ms * 1_000_000 + 2, "at": ms, "day": 1, "plain": ms}


def changes(**parts: Any) -> list[Record]:
    source = {"table": "customers", "ts_ms": SUMMER, "ts_ns": WINTER * 1_000_000}
    return documents(
        ENVELOPE,
        {
            "before": row(SUMMER, "2024-07-03T09:46:40Z"),
            "after": row(WINTER, "2024-01-11T19:06:40.120+01:00"),
            "op": "u",
        }
        | {"source": source},
        {"after": row(-1, "1969-12-31T23:59:59.999999999Z"), "op": "c", "source": source | {"table": "orders"}},
        {"before": {}, "op": "d", "source": source},
        **parts,
    )


@pytest.mark.parametrize(
    ("zone", "more"),
    [
        ("America/New_York", {}),
        ("+05:30", {"include.list": "source:customers"}),
        ("Europe/Berlin", {"include.list": "source:customers:ms"}),
        ("Asia/Tokyo", {"include.list": "topic:t:source.ts_ms"}),
        ("-03:00", {"include.list": "customers:zoned"}),
        ("Asia/Kolkata", {"exclude.list": "source:customers"}),
        ("Pacific/Auckland", {"exclude.list": "topic:t:source.ts_ms"}),
        ("UTC", {"exclude.list": "topic:other:ms"}),
    ],
    ids=str,
)
def test_times(chains: Chains, zone: str, more: dict[str, str]) -> None:
    records = [*changes(), *OTHERS[1:], Record(None)]
    chains.alike([Link(NAME, {"converted.timezone": zone, **more})], records, value=KEEPS_NULLS, known=crashes)


def test_what_is_no_time(chains: Chains) -> None:
    of = event(named(ROW, "after"), SOURCE, OP)
    records = documents(of, {"after": {"zoned": "2024"}, "op": "c", "source": {"table": "x"}})
    chains.alike([Link(NAME, {"converted.timezone": "+01:00"})], records, value=KEEPS_NULLS, known=crashes, here=True)
    timed = struct(schema("string", "clock", name=f"{TIME}ZonedTime", version=1), field="after")
    records = documents(
        event(timed, SOURCE, OP), {"after": {"clock": "10:15:00.5Z"}, "op": "c", "source": {"table": "x"}}
    )
    chains.alike([Link(NAME, {"converted.timezone": "+01:00"})], records)
    (refused,) = chains.ours(Chain((Link(NAME, {"converted.timezone": "Europe/Berlin"}),)), records)
    assert "after.clock cannot be moved to the time zone Europe/Berlin" in str(refused)


def test_its_settings_are_those_of_the_jar(chains: Chains) -> None:
    settings_of(chains, TimezoneConverter, NAME, required=("converted.timezone",))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"converted.timezone": "Mars/Base"},
        {"converted.timezone": "UTC", "include.list": "source:a", "exclude.list": "source:b"},
        {"converted.timezone": "UTC", "include.list": "source:a:b:c"},
    ],
    ids=str,
)
def test_both_refuse(chains: Chains, settings: dict[str, str]) -> None:
    with pytest.raises((Py4JJavaError, PySparkException)):
        chains.apache(Chain((Link(NAME, settings),)), [])
    with pytest.raises(ConfigError):
        TimezoneConverter().configure(settings)
