"""Messages of the three formats, and streams cut into messages."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from headrace.connectors.logs.syslog.framing import Framer, FramingError
from headrace.connectors.logs.syslog.inbox import ARRIVED, Inbox
from headrace.connectors.logs.syslog.messages import PARSED, parse

NEW_YEAR = 1798761600000  # 2027-01-01T00:00:00Z


def parsed(
    *messages: str | bytes, zone: str = "UTC", charset: str = "utf-8", at: int = NEW_YEAR
) -> list[dict[str, Any]]:
    data = [one.encode() if isinstance(one, str) else one for one in messages]
    batch = pa.record_batch([data, ["10.0.0.1"] * len(data), [at] * len(data)], schema=ARRIVED)
    found = parse(batch, charset, zone)
    assert found.schema == PARSED
    return [{name: value for name, value in row.items() if value is not None} for row in found.to_pylist()]


def common(raw: str) -> dict[str, Any]:
    return {"raw": raw, "remote": "10.0.0.1", "received": NEW_YEAR}


def test_the_example_of_confluents_documentation() -> None:
    raw = "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - Your refrigerator is running"
    assert parsed(raw + "\n") == [
        {
            "type": "RFC5424",
            "facility": 4,
            "level": 2,
            "version": 1,
            "date": 1065910455003,
            "host": "mymachine.example.com",
            "appName": "su",
            "messageId": "ID47",
            "message": "Your refrigerator is running",
            **common(raw),
        }
    ]


def test_structured_data() -> None:
    sd = r'[a@1 x="1" q="say \"hi\" \\ [\]"][b][c x="1" y="ü" x="2"]'
    [row] = parsed(f"<165>1 2003-08-24T05:14:15.000003-07:00 h app 12 - {sd} \ufeffthe text")
    assert row["date"] == 1061727255000
    assert (row["processId"], row["message"]) == ("12", "the text")
    assert row["structuredData"] == [
        {"id": "a@1", "structuredDataElements": [("x", "1"), ("q", 'say "hi" \\ []')]},
        {"id": "b", "structuredDataElements": []},
        {"id": "c", "structuredDataElements": [("y", "ü"), ("x", "2")]},
    ]
    without, absent = parsed("<165>1 - - - - - [a]", "<165>1 - - - - - -")
    assert without["structuredData"] == [{"id": "a", "structuredDataElements": []}]
    assert "structuredData" not in absent
    assert (without["message"], absent["message"]) == ("", "")
    assert "host" not in absent


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "Oct 11 22:14:15 mymachine su: 'su root' failed",
            ("mymachine", "su", None, "'su root' failed", 1791756855000),
        ),
        ("Jan  1 00:00:05 m sshd[42]: a: b", ("m", "sshd", "42", "a: b", NEW_YEAR + 5_000)),
        ("Dec 31 23:59:59 m no tag here", ("m", None, None, "no tag here", NEW_YEAR - 1_000)),
        ("Oct 11 22:14:15 cron[1]: local", (None, "cron", "1", "local", 1791756855000)),
        ("Oct 11 2003 22:14:15 fe80::1 x: y", ("fe80::1", "x", None, "y", 1065910455000)),
        ("Oct 11 22:14:15 2003: h x: y", ("h", "x", None, "y", 1065910455000)),
        ("2003-10-11T22:14:15.5+02:00 h x: y", ("h", "x", None, "y", 1065903255500)),
        ("Feb 30 22:14:15 h x: y", ("h", "x", None, "y", None)),
    ],
)
def test_rfc_3164(text: str, wanted: tuple[Any, ...]) -> None:
    [row] = parsed(f"<13>{text}")
    assert row["type"] == "RFC3164"
    assert tuple(row.get(name) for name in ("host", "tag", "processId", "message", "date")) == wanted


def test_dates_without_a_zone_are_of_the_senders() -> None:
    [row] = parsed("<13>Jul  1 12:00:00 h x: y", zone="Europe/Berlin", at=1782900000000)
    assert row["date"] == 1782900000000
    [leap] = parsed("<13>Feb 29 12:00:00 h x: y", at=1835438400000)  # 2028-02-29
    assert leap["date"] == 1835438400000


def test_cef() -> None:
    text = r"CEF:0|Sec\|urity|threat manager|1.0|100|worm \\ stopped|10|src=10.0.0.1 msg=two words\=one\nline spt=1232"
    rows = parsed(f"<13>Sep 19 08:26:10 host {text}", text, f"<13>1 2003-10-11T22:14:15Z host app - - - {text}")
    for row in rows:
        assert row["type"] == "CEF"
        assert (row["deviceVendor"], row["deviceProduct"], row["deviceVersion"]) == (
            "Sec|urity",
            "threat manager",
            "1.0",
        )
        assert (row["deviceEventClassId"], row["name"], row["severity"]) == ("100", "worm \\ stopped", "10")
        assert row["extension"] == [("src", "10.0.0.1"), ("msg", "two words=one\nline"), ("spt", "1232")]
    assert [row.get("host") for row in rows] == ["host", None, "host"]
    [empty] = parsed("CEF:0|a|b|c|d|e|f|")
    assert empty.get("extension", []) == []


def test_what_is_none_of_them_is_kept_as_it_came() -> None:
    raw = "<188>Aug  1 2024 12:33:22 GPN-1220 %%01QOS/4/SACL_LOG(l)[559101]:Ipv4 acl 3500"
    [huge, bare, cisco] = parsed("<999>Oct 11 22:14:15 h x: y", "hello", raw)
    assert huge == {"type": "UNKNOWN", **common("<999>Oct 11 22:14:15 h x: y")}
    assert bare == {"type": "UNKNOWN", **common("hello")}
    assert (cisco["type"], cisco["host"], cisco["date"]) == ("RFC3164", "GPN-1220", 1722515602000)


def test_encodings_and_malformed_bytes() -> None:
    latin = "<13>Oct 11 22:14:15 h x: grüße".encode("iso-8859-1")
    [row] = parsed(latin, charset="iso8859-1")
    assert row["message"] == "grüße"
    [broken, fine] = parsed(latin, "<13>Oct 11 22:14:15 h x: grüße")
    assert (broken["message"], fine["message"]) == ("gr\ufffd\ufffde", "grüße")


@pytest.mark.parametrize(
    "text",
    [
        '<13>1 - h a - - [x y="' + '\\"' * 30_000,
        "<13>1 - h a - - " + "[a]" * 20_000 + "[",
        "CEF:0|a|b|c|d|e|f|" + " " * 60_000 + "x",
        "CEF:0|a|b|c|d|e|f|" + "a=" * 30_000,
        "CEF:0|" + "\\|" * 30_000,
        "<13>Oct 11 22:14:15 " + "x" * 60_000,
        "[" * 60_000,
    ],
)
def test_hostile_messages_take_time_in_proportion(text: str) -> None:
    began = time.process_time()
    assert parsed(text)[0]["raw"] == text
    assert time.process_time() - began < 5


def test_an_empty_batch_and_many_messages() -> None:
    assert parsed() == []
    rows = parsed(*(f'<13>1 - h a - - [x n="{number}"] m{number}' for number in range(5_000)))
    assert [row["structuredData"][0]["structuredDataElements"][0][1] for row in rows] == [*map(str, range(5_000))]


def fed(framer: Framer, data: bytes, step: int) -> list[bytes]:
    return [one for at in range(0, len(data), step) for one in framer.feed(data[at : at + step])]


@pytest.mark.parametrize("step", [1, 2, 7, 1_000])
def test_lines_and_counts(step: int) -> None:
    assert fed(Framer(100), b"<1>a\n<1>b\r\n\n5 apples\n<1>c", step) == [b"<1>a", b"<1>b\r", b"", b"5 apples"]
    counted = Framer(100)
    assert fed(counted, b"4 <1>a11 <1>two\nline5 <1>bc\n4 <1>d", step) == [b"<1>a", b"<1>two\nline", b"<1>bc", b"<1>d"]
    assert counted.rest() == []


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_long_messages_are_cut_and_counted(step: int) -> None:
    lines = Framer(4)
    assert fed(lines, b"abc\nabcdefgh\nxyz\n" + b"q" * 500 + b"\nz\n", step) == [b"abc", b"abcd", b"xyz", b"qqqq", b"z"]
    assert lines.truncated == 2
    counts = Framer(4)
    assert fed(counts, b"3 <bc8 <bcdefgh3 <yz", step) == [b"<bc", b"<bcd", b"<yz"]
    assert counts.truncated == 1


def test_the_end_of_a_connection() -> None:
    lines = Framer(100)
    lines.feed(b"a\nlast")
    assert lines.rest() == [b"last"]
    assert Framer(100).rest() == []
    torn = Framer(100)
    torn.feed(b"10 <1>a")
    with pytest.raises(FramingError):
        torn.rest()
    with pytest.raises(FramingError):
        Framer(100).feed(b"4 <1>aoops, no count")


def test_an_endless_line_takes_no_more_memory_than_a_message() -> None:
    framer = Framer(1_000)
    found = [one for _ in range(1_000) for one in framer.feed(b"x" * 10_000)]
    assert found == [b"x" * 1_000]
    assert len(framer._kept) <= 1_000


def test_the_inbox_keeps_what_is_not_released() -> None:
    inbox = Inbox(1_000)
    assert inbox.messages(10, 10) is None
    inbox.put([b"a", b"b"], ["x", "x"], 1)
    inbox.put([b"c" * 900, b"d"], ["y", "y"], 2)
    assert not inbox.has_room

    def kept(rows: int, size: int) -> list[bytes]:
        found = inbox.messages(rows, size)
        return [] if found is None else found.column("data").to_pylist()

    assert kept(3, 10_000) == [b"a", b"b", b"c" * 900]
    assert kept(10, 1) == [b"a"]
    inbox.release(1)
    assert kept(2, 10_000) == [b"b", b"c" * 900]
    inbox.release(3)
    assert inbox.has_room
    assert kept(10, 10_000) == [b"d"]
    inbox.release(9)
    assert kept(10, 10_000) == []


def test_messages_that_arrive_one_by_one_lie_in_few_batches() -> None:
    inbox = Inbox(1 << 20)
    for number in range(1_000):
        inbox.put([b"%d" % number], ["x"], number)
        if number == 500:
            inbox.release(300)
    assert len(inbox._batches) < 110
    found = inbox.messages(1_000, 1 << 20)
    assert found is not None
    assert found.column("data").to_pylist() == [b"%d" % number for number in range(300, 1_000)]
    inbox.release(999)
    inbox.release(1_000)
    assert inbox._bytes == 0
