"""Parses messages of RFC 5424, RFC 3164 and CEF, many at once: Arrow's expressions take time in proportion to length.

Decided: Arrow's regular expressions (RE2) rather than Spark's (Java's), because anybody may send a message, and Java's
take quadratic time and a deep stack for some; loses: nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connectors.file.lines import repair
from headrace.connectors.logs.instants import milliseconds

_MAP: Final = pa.map_(pa.string(), pa.string())
_ELEMENT: Final = pa.struct([("id", pa.string()), ("structuredDataElements", _MAP)])
PARSED: Final = pa.schema(
    [
        ("type", pa.string()),
        ("facility", pa.int32()),
        ("level", pa.int32()),
        ("version", pa.int32()),
        ("date", pa.int64()),
        ("host", pa.string()),
        ("appName", pa.string()),
        ("processId", pa.string()),
        ("messageId", pa.string()),
        ("structuredData", pa.list_(_ELEMENT)),
        ("tag", pa.string()),
        ("message", pa.string()),
        ("deviceVendor", pa.string()),
        ("deviceProduct", pa.string()),
        ("deviceVersion", pa.string()),
        ("deviceEventClassId", pa.string()),
        ("name", pa.string()),
        ("severity", pa.string()),
        ("extension", _MAP),
        ("raw", pa.string()),
        ("remote", pa.string()),
        ("received", pa.int64()),
    ]
)
"""Units of `date` and `received`: milliseconds since 1970."""

_ISO: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)"
_SD: Final = r'(?:\[[^\s=\]"]+(?: +[^\s=\]"]+="(?:[^"\\]|\\.)*")* ?\])+'
_NEW: Final = (
    rf"(?s)^<(?P<pri>\d{{1,3}})>(?P<version>[1-9]\d{{0,2}}) (?P<date>-|{_ISO}) (?P<host>\S+) (?P<app>\S+) "
    rf"(?P<proc>\S+) (?P<msgid>\S+) (?P<sd>-|{_SD})(?: \x{{feff}}?(?P<text>.*))?$"
)
_OLD: Final = (
    rf"(?s)^<(?P<pri>\d{{1,3}})>(?:(?P<iso>{_ISO})|(?P<month>[A-Z][a-z]{{2}}) +(?P<day>\d{{1,2}}) "
    r"(?:(?P<year>\d{4}) )?(?P<time>\d\d:\d\d:\d\d)(?:\.\d+)?(?: (?P<late>\d{4}))?):? "
    r"(?:(?P<host>\S*[^\s:]) )?(?P<text>.*)$"
)
_TAG: Final = r"(?s)^(?P<tag>[^\s\[\]:]{1,64})(?:\[(?P<pid>[^\]\s]*)\])?: ?(?P<text>.*)$"
_FIELD: Final = r"((?:[^|\\]|\\.)*)"
_CEF_FIELDS: Final = ("deviceVendor", "deviceProduct", "deviceVersion", "deviceEventClassId", "name", "severity")
_CEF: Final = (
    r"(?s)(?:^|[\s:])CEF: ?(?P<cef>\d+)"
    + "".join(rf"\|(?P<{name}>(?:[^|\\]|\\.)*)" for name in _CEF_FIELDS)
    + r"\|(?P<extension>.*)$"
)
_PRIORITY: Final = r"^<(?P<pri>\d{1,3})>"
_ELEMENT_MARK, _PAIR_MARK, _VALUE_MARK, _ESCAPE_MARK = "\x1e", "\x1f", "\x1d", "\x1c"
_MARKS: Final = "[\x1c-\x1f]"
_MOST_PRIORITY: Final = 191


def parse(arrived: pa.RecordBatch, charset: str, zone: str) -> pa.RecordBatch:
    """The parsed messages; `zone` is that of dates without one. Shape: as `PARSED`."""
    raw = pc.utf8_trim(_texts(arrived.column("data"), charset), "\r\n\0")
    new, old, cef = pc.extract_regex(raw, _NEW), pc.extract_regex(raw, _OLD), pc.extract_regex(raw, _CEF)
    priority = pc.struct_field(pc.extract_regex(raw, _PRIORITY), "pri").cast(pa.int32())
    priority = pc.if_else(pc.less_equal(priority, _MOST_PRIORITY), priority, None)
    is_new = pc.and_(pc.is_valid(new), pc.is_valid(priority))
    is_old = pc.and_(pc.and_not(pc.is_valid(old), is_new), pc.is_valid(priority))
    is_cef = pc.is_valid(cef)
    tagged = pc.extract_regex(_of(old, "text", is_old), _TAG)
    texts = _of(new, "text", is_new), pc.struct_field(tagged, "text"), _of(old, "text", is_old)
    text = pc.coalesce(*texts, pc.if_else(is_new, "", None))
    cef = {name: _of(cef, name, is_cef) for name in (*_CEF_FIELDS, "extension")}
    received = arrived.column("received")
    columns = {
        "type": _kind(is_new, is_old, is_cef),
        "facility": pc.shift_right(priority, 3),
        "level": pc.bit_wise_and(priority, 7),
        "version": _of(new, "version", is_new).cast(pa.int32()),
        "date": pc.coalesce(
            milliseconds(_given(_of(new, "date", is_new))),
            milliseconds(_of(old, "iso", is_old)),
            _without_year(old, is_old, received, zone),
        ),
        "host": pc.coalesce(_given(_of(new, "host", is_new)), _of(old, "host", is_old)),
        "appName": _given(_of(new, "app", is_new)),
        "processId": pc.coalesce(_given(_of(new, "proc", is_new)), _given(pc.struct_field(tagged, "pid"))),
        "messageId": _given(_of(new, "msgid", is_new)),
        "structuredData": _structured(_given(_of(new, "sd", is_new))),
        "tag": pc.if_else(is_cef, None, pc.struct_field(tagged, "tag")),
        "message": pc.if_else(is_cef, None, text),
        **{name: _unescaped(cef[name]) for name in _CEF_FIELDS},
        "extension": _extension(cef["extension"]),
        "raw": raw,
        "remote": arrived.column("remote"),
        "received": received,
    }
    return pa.record_batch([columns[field.name].cast(field.type) for field in PARSED], schema=PARSED)


def _texts(data: pa.BinaryArray, charset: str) -> pa.StringArray:
    if charset == "utf-8":
        try:
            return data.cast(pa.string())
        except pa.ArrowInvalid:
            return pa.array([repair(one).decode() for one in data.to_pylist()], pa.string())
    return pa.array([one.decode(charset, "replace") for one in data.to_pylist()], pa.string())


def _of(found: pa.StructArray, name: str, where: pa.BooleanArray) -> pa.StringArray:
    """A group of an expression; null if the message is of another kind, or the group is empty."""
    value = pc.if_else(where, pc.struct_field(found, name), None)
    return pc.if_else(pc.equal(value, ""), None, value) if name != "text" else value


def _given(value: pa.StringArray) -> pa.StringArray:
    return pc.if_else(pc.or_(pc.equal(value, "-"), pc.equal(value, "")), None, value)


def _kind(is_new: pa.BooleanArray, is_old: pa.BooleanArray, is_cef: pa.BooleanArray) -> pa.StringArray:
    old = pc.if_else(is_old, "RFC3164", "UNKNOWN")
    return pc.if_else(is_cef, "CEF", pc.if_else(is_new, "RFC5424", old))


# -- dates -------------------------------------------------------------------------------------------------------------


def _without_year(old: pa.StructArray, is_old: pa.BooleanArray, received: pa.Int64Array, zone: str) -> pa.Int64Array:
    """Dates such as `Oct 11 22:14:15`, in the year in which they are nearest to the time of arrival."""
    given = pc.coalesce(_of(old, "year", is_old), _of(old, "late", is_old))
    rest = pc.binary_join_element_wise(
        _of(old, "month", is_old), pc.utf8_lpad(_of(old, "day", is_old), 2, "0"), _of(old, "time", is_old), " "
    )
    arrived = pc.year(received.cast(pa.timestamp("ms", "UTC")))
    day = _of(old, "day", is_old).cast(pa.int64())
    nearest: pa.Int64Array | None = None
    for shift in (0, -1, 1):
        year = pc.coalesce(given, pc.add(arrived, shift).cast(pa.string()))
        moment = pc.strptime(
            pc.binary_join_element_wise(year, rest, " "), "%Y %b %d %H:%M:%S", unit="ms", error_is_null=True
        )
        moment = pc.if_else(pc.equal(pc.day(moment), day), moment, None)  # February 30 became a day of March
        one = pc.assume_timezone(moment, zone, ambiguous="earliest", nonexistent="earliest").cast(pa.int64())
        if nearest is None:
            nearest = one
            continue
        is_nearer = pc.less(_distance(one, received), _distance(nearest, received))
        nearest = pc.if_else(pc.coalesce(is_nearer, pc.is_null(nearest)), one, nearest)
    return nearest


def _distance(one: pa.Int64Array, other: pa.Int64Array) -> pa.Int64Array:
    return pc.abs(pc.subtract(one, other))


# -- names and values --------------------------------------------------------------------------------------------------


def _structured(text: pa.StringArray) -> pa.ListArray:
    """The elements of structured data, such as `[id name="value"][…]`."""
    text = pc.replace_substring_regex(text, _MARKS, "\ufffd")
    element = r'\[([^\s=\]"]+)((?: +[^\s=\]"]+="(?:[^"\\]|\\.)*")*) ?\]'
    text = pc.replace_substring_regex(text, element, rf"{_ELEMENT_MARK}\1\2")
    pair = r' +([^\s=\]"]+)="((?:[^"\\]|\\.)*)"'
    text = pc.replace_substring_regex(text, pair, rf"{_PAIR_MARK}\1{_VALUE_MARK}\2")
    text = pc.replace_substring_regex(text, r'\\(["\\\]])', r"\1")
    offsets, elements = _split(text, _ELEMENT_MARK)
    found = pc.extract_regex(elements, rf"(?s)^(?P<id>[^{_PAIR_MARK}]*)(?P<pairs>.*)$")
    identities, pairs = pc.struct_field(found, "id"), pc.struct_field(found, "pairs")
    made = pa.StructArray.from_arrays([identities, _map(pairs)], fields=list(_ELEMENT))
    return pa.ListArray.from_arrays(offsets, made, mask=text.is_null())


def _extension(text: pa.StringArray) -> pa.MapArray:
    """The pairs of a CEF extension, such as `src=10.0.0.1 msg=two words`."""
    text = pc.replace_substring_regex(text, _MARKS, "\ufffd")
    text = pc.replace_substring_regex(text, r"(?:^|\s+)([A-Za-z0-9_.\[\]-]+)=", rf"{_PAIR_MARK}\1{_VALUE_MARK}")
    return _map(_unescaped(pc.utf8_rtrim_whitespace(text)))


def _unescaped(text: pa.StringArray) -> pa.StringArray:
    text = pc.replace_substring(text, "\\\\", _ESCAPE_MARK)
    text = pc.replace_substring(pc.replace_substring(text, "\\n", "\n"), "\\r", "\r")
    text = pc.replace_substring_regex(text, r"\\([=|])", r"\1")
    return pc.replace_substring(text, _ESCAPE_MARK, "\\")


def _map(text: pa.StringArray) -> pa.MapArray:
    """The maps of marked pairs; of equal names the last counts."""
    offsets, pairs = _split(text, _PAIR_MARK)
    split = pc.extract_regex(pairs, rf"(?s)^(?P<name>[^{_VALUE_MARK}]*){_VALUE_MARK}(?P<value>.*)$")
    names = pc.struct_field(split, "name")
    rows = np.repeat(np.arange(len(text)), np.diff(offsets.to_numpy()))
    codes = names.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    places = rows * (len(pairs) + 1) + codes
    _, last = np.unique(places[::-1], return_index=True)
    kept = np.sort(len(pairs) - 1 - last)
    kept = kept[codes[kept] >= 0]
    counts = np.bincount(rows[kept], minlength=len(text))
    begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int32)
    chosen = pa.array(kept)
    values = pc.struct_field(split, "value").take(chosen)
    made = pa.MapArray.from_arrays(pa.array(begins), names.take(chosen), values)
    return pc.if_else(text.is_valid(), made, pa.scalar(None, _MAP))


def _split(text: pa.StringArray, mark: str) -> tuple[pa.Int32Array, pa.StringArray]:
    """The parts after each mark, and where those of each row begin."""
    parts = pc.split_pattern(pc.fill_null(pc.utf8_ltrim(text, mark), ""), mark)
    return parts.offsets, parts.flatten()
