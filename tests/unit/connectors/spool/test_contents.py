"""Contents of files: CSV, JSON, lines, bytes, Avro, Parquet; types, compressions, encodings."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connectors.spool import schemas, text_records
from headrace.connectors.spool.connector import (
    FilePulseSourceConnector,
    SpoolDirAvroSourceConnector,
    SpoolDirBinaryFileSourceConnector,
    SpoolDirCsvSourceConnector,
    SpoolDirELFSourceConnector,
    SpoolDirJsonSourceConnector,
    SpoolDirLineDelimitedSourceConnector,
    SpoolDirSchemaLessJsonSourceConnector,
    SpoolDirSourceConnector,
)
from headrace.connectors.spool.date_patterns import DatePattern
from headrace.connectors.spool.errors import SpoolError
from headrace.plugins.testkit import SMALL
from tests.unit.connectors.spool.folders import Folder, Walk, schema


@pytest.fixture
def csv(tmp_path: Path) -> Callable[..., list[Any]]:
    """Reads bytes as CSV with these settings."""

    def read(data: bytes, name: str = "a.csv", **settings: str) -> list[Any]:
        given = {"value_schema": schema(a="STRING?", b="STRING?")} | settings
        folder = Folder(tmp_path, SpoolDirCsvSourceConnector, **given)
        folder.file(name, data)
        walk = Walk(folder)
        return [list(value.values()) for value in walk.values()]

    return read


def test_quotes_line_ends_and_blanks(csv: Callable[..., list[Any]]) -> None:
    data = b'a,b\r\n"x\ny","q""r"\n\n "c", "d , ""e"""\n"f\r\n",\\"\nlast,one'
    rows = [["a", "b"], ["x\ny", 'q"r'], ["c", 'd , "e"'], ["f\r\n", '"'], ["last", "one"]]
    assert csv(data) == rows


def test_signs(csv: Callable[..., list[Any]]) -> None:
    assert csv(b"'a;b';c\n", csv_separator_char="59", csv_quote_char="39") == [["a;b", "c"]]
    assert csv(b'5" pipe\tx\n', csv_separator_char="9", csv_quote_char="0") == [['5" pipe', "x"]]
    assert csv(b'C:\\dir,"a\\"\n', csv_rfc_4180_parser_enabled="true") == [["C:\\dir", "a\\"]]
    assert csv(b'"a\\"b","c\\\\"\n') == [['a"b', "c\\"]]


def test_headers_lines_to_skip_and_unknown_columns(csv: Callable[..., list[Any]]) -> None:
    data = b"# made\n# today\nb,z,a\n1,2,3\n"
    assert csv(data, csv_skip_lines="2", csv_first_row_as_header="true") == [["3", "1"]]
    assert csv(b"\xef\xbb\xbfb,a\n1,2\n", csv_first_row_as_header="true") == [["2", "1"]]


@pytest.mark.parametrize(
    ("indicator", "found"),
    [
        ("NEITHER", ["", ""]),
        ("EMPTY_SEPARATORS", [None, ""]),
        ("EMPTY_QUOTES", ["", None]),
        ("BOTH", [None, None]),
    ],
)
def test_null_cells(csv: Callable[..., list[Any]], indicator: str, found: list[Any]) -> None:
    assert csv(b',""\n', csv_null_field_indicator=indicator) == [found]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"a,b\na\n", r"1 cells, but there are 2 columns \(in record 2\)"),
        (b"a,b\na,b,c\n", r"3 cells, but there are 2 columns \(in record 2\)"),
        (b'a,b\nc,5" pipe\nd,e\n', r"a quote within, but does not begin with one.*\(in record 2\)"),
        (b'a,b\nc,"d\ne,f\n', r"a quote has no end \(in record 2\)"),
        (b"a,b\nc,\xff\n", r"not UTF-8: set csv\.file\.charset \(in record 2\)"),
    ],
)
def test_bad_rows(csv: Callable[..., list[Any]], data: bytes, why: str) -> None:
    with pytest.raises(SpoolError, match=why):
        csv(data)


def test_encodings(csv: Callable[..., list[Any]]) -> None:
    for charset in ("ISO-8859-1", "UTF-16", "windows-1252"):
        assert csv("é,ü\n".encode(charset), csv_file_charset=charset) == [["é", "ü"]]


def _snappy(data: bytes) -> bytes:
    body = bytes(4) + pa.Codec("snappy").compress(data, asbytes=True)
    return b"\xff\x06\x00\x00sNaPpY\x00" + len(body).to_bytes(3, "little") + body


def _by_arrow(kind: str, data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, kind) as out:
        out.write(data)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [
        ("gz", gzip.compress),
        ("bz2", bz2.compress),
        ("snappy", _snappy),
        ("lz4", lambda data: _by_arrow("lz4", data)),
        ("zst", lambda data: _by_arrow("zstd", data)),
    ],
)
def test_compressions(tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes]) -> None:
    folder = Folder(tmp_path)
    folder.file(f"a.txt.{suffix}", compress(b"".join(b"%d\n" % number for number in range(60))))
    assert Walk(folder).values(SMALL) == [str(number) for number in range(60)]
    folder.file(f"b.txt.{suffix}", b"broken")
    with pytest.raises(SpoolError, match=r"b\.txt"):
        Walk(folder).values()


def _snappy_of(body: bytes) -> bytes:
    """A file of snappy's framing format with a compressed chunk of this body."""
    return b"\xff\x06\x00\x00sNaPpY\x00" + (len(body) + 4).to_bytes(3, "little") + bytes(4) + body


def test_a_snappy_chunk_of_nothing_ends_no_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.file("a.sz", _snappy_of(pa.Codec("snappy").compress(b"", asbytes=True)) + _snappy(b"one\n"))
    assert Walk(folder).values() == ["one"]


def test_a_snappy_chunk_larger_than_the_format_allows_is_not_made_room_for(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.file("a.sz", _snappy_of(b"\xff\xff\xff\xff\x0f\x00"))
    with pytest.raises(SpoolError, match="has a chunk of 4294967295 bytes"):
        Walk(folder).values()


def test_gzip_that_is_cut_off_is_a_bad_file(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.file("a.gz", gzip.compress(b"1\n2\n")[:-9])
    folder.file("b.Z", b"\x1f\x9d")
    with pytest.raises(SpoolError, match=r"a\.gz cannot be read: its compressed contents are broken"):
        Walk(folder).values()
    with pytest.raises(SpoolError, match=r"b\.Z cannot be read: files of \.z"):
        Walk(folder).values()


TYPES = {
    "i8": "INT8", "i64": "INT64?", "f": "FLOAT64", "b": "BOOLEAN", "d": "Decimal", "day": "Date", "at": "Time",
    "ts": "Timestamp",
}  # fmt: skip
CELLS = [
    "-3",
    "+9007199254740993",
    "1e3",
    "TRUE",
    "12.5",
    "2026-02-28 10:11:12",
    "2026-02-28 10:11:12",
    "2026-02-28T10:11:12",
]
TYPED = {
    "i8": -3, "i64": 9007199254740993, "f": 1000.0, "b": True, "d": Decimal("12.50"), "day": dt.date(2026, 2, 28),
    "at": (10 * 60 + 11) * 60_000 + 12_000, "ts": dt.datetime(2026, 2, 28, 9, 11, 12, tzinfo=dt.UTC),
}  # fmt: skip


def test_types_of_csv_and_json(tmp_path: Path) -> None:
    zone = {
        "parser_timestamp_timezone": "Europe/Berlin",
        "value_schema": schema(**TYPES),
        "key_schema": schema(i8="INT8"),
    }
    folder = Folder(tmp_path, SpoolDirCsvSourceConnector, **zone)
    folder.file("a.csv", (",".join(CELLS) + "\n").encode())
    rows = Walk(folder).all()
    assert [row["value"] for row in rows] == [TYPED]
    assert [row["key"] for row in rows] == [{"i8": -3}]
    folder = Folder(tmp_path, SpoolDirJsonSourceConnector, **zone)
    cells: dict[str, Any] = dict(zip(TYPES, CELLS, strict=True)) | {"i8": -3, "d": 12.5, "b": True, "f": 1e3}
    folder.file("a.json", json.dumps(cells, indent=2).encode())
    assert Walk(folder).values() == [TYPED]


@pytest.mark.parametrize(
    ("kind", "cell"),
    [
        ("INT8", "128"), ("INT32", "0x1f"), ("INT32", " 1"), ("INT32", ""), ("INT32", "1.0"), ("BOOLEAN", "1"),
        ("Decimal", "1.234"), ("Date", "2026-02-30 00:00:00"), ("Timestamp", "2026-13-01 00:00:00"), ("FLOAT32", "x"),
        ("Timestamp", "today"), ("Time", "2026-01-01 24:00:00"),
    ],
)  # fmt: skip
def test_cells_that_do_not_fit(csv: Callable[..., list[Any]], kind: str, cell: str) -> None:
    with pytest.raises(SpoolError, match=rf"the field a is no {kind}: '{cell}'"):
        csv(f'"{cell}"\n'.encode(), value_schema=schema(a=kind))


def test_defaults_of_logical_types(csv: Callable[..., list[Any]]) -> None:
    fields = json.loads(schema(a="Timestamp", b="Date", c="INT32"))
    for name, default in (("a", 1000), ("b", 1), ("c", 7)):
        fields["fieldSchemas"][name]["defaultValue"] = default
    (row,) = csv(b",,", value_schema=json.dumps(fields), csv_null_field_indicator="BOTH")
    assert row == [dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC), dt.date(1970, 1, 2), 7]


@pytest.mark.parametrize(
    ("field", "why"),
    [
        ({"type": "INT32", "defaultValue": "x"}, "The defaultValue of the field a is no INT32: 'x'"),
        ({"type": "STRING", "defaultValue": 5}, "The defaultValue of the field a is no STRING: 5"),
        ({"type": "STRING", "parameters": "x"}, "parameters of the field a is 'x', not a JSON object"),
        ({"type": "STRING", "version": "1"}, "version of the field a is '1', not a number"),
        ({"type": "STRING", "isOptional": "no"}, "The isOptional of the field a is 'no', not true or false"),
    ],
)
def test_fields_that_are_wrong(field: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        schemas.parsed(json.dumps({"type": "STRUCT", "fieldSchemas": {"a": field}}))


def test_a_schema_that_is_nested_too_deep() -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        schemas.parsed("[" * 100_000)


def test_is_optional_may_be_a_text() -> None:
    fields = {name: {"type": "STRING", "isOptional": name} for name in ("true", "false")}
    made = schemas.parsed(json.dumps({"type": "STRUCT", "fieldSchemas": fields}))
    assert [field.schema.optional for field in made.fields] == [True, False]


def test_a_required_field_without_a_value(csv: Callable[..., list[Any]]) -> None:
    settings = {"csv_null_field_indicator": "BOTH", "value_schema": schema(a="INT32", b="INT32?")}
    with pytest.raises(SpoolError, match=r"the field a has no value.*\(in record 2\)"):
        csv(b"1,\n,2\n", **settings)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("dd/MM/yyyy", "07/03/2026", dt.datetime(2026, 3, 7)),
        ("yyyyMMddHHmmssSSS", "20260307010203004", dt.datetime(2026, 3, 7, 1, 2, 3, 4000)),
        ("EEE, d MMM yyyy hh:mm a", "Sat, 7 Mar 2026 12:30 PM", dt.datetime(2026, 3, 7, 12, 30)),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2026-03-07T01:00:00+02:00", dt.datetime(2026, 3, 6, 23)),
        ("yyyy-MM-dd HH:mm:ss Z", "2026-03-07 01:00:00 -0130", dt.datetime(2026, 3, 7, 2, 30)),
        ("yy-M-d", "99-1-2", dt.datetime(1999, 1, 2)),
        ("yyyy-MM-dd", "1969-12-31", dt.datetime(1969, 12, 31)),
    ],
)
def test_date_patterns(pattern: str, text: str, found: dt.datetime) -> None:
    local, zone_ms = DatePattern.of(pattern).parsed(pa.array([text, None, "no date"]))
    ms = local[0].as_py() - (0 if zone_ms is None else zone_ms[0].as_py())
    assert dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=ms) == found
    assert local.null_count == 2


def test_json_of_every_layout(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SpoolDirJsonSourceConnector, value_schema=schema(a="STRING?", n="INT64?"))
    folder.file("1.json", b'{"a":"1,{","n":1}\n{"a":"\\"}","n":null}{"z":[{"a":7}],"a":true}')
    folder.file("2.json", b'[\n  {"a": 1.10},\n  {"n": -5}\n]\n')
    found = [(value["a"], value["n"]) for value in Walk(folder).values()]
    assert found == [("1,{", 1), ('"}', None), ("true", None), ("1.10", None), (None, -5)]


def test_nested_json(tmp_path: Path) -> None:
    inner = {"type": "STRUCT", "isOptional": True, "fieldSchemas": {"x": {"type": "INT32", "isOptional": False}}}
    items = {"type": "ARRAY", "isOptional": True, "valueSchema": inner}
    text = json.dumps({"type": "STRUCT", "fieldSchemas": {"one": inner, "all": items}})
    folder = Folder(tmp_path, SpoolDirJsonSourceConnector, value_schema=text)
    folder.file("1.json", b'{"one":{"x":1},"all":[{"x":2},{"x":3}]}{"one":null}{"all":[]}')
    none: dict[str, Any] = {"one": None, "all": None}
    assert Walk(folder).values() == [{"one": {"x": 1}, "all": [{"x": 2}, {"x": 3}]}, none, {"one": None, "all": []}]
    folder.file("2.json", b'{"one":{"x":1}}{"one":{}}')
    with pytest.raises(SpoolError, match=r"the field one\.x has no value.*\(in record 2\)"):
        Walk(folder).values()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b'{"a":"1"}{"a":1 2}', "no JSON"),
        (b'{"a":"1"}{"a":tru}', "no JSON"),
        (b'{"a":"1"}{"a":01}', "no JSON"),
        (b'{"a":"1"}{"a":{"b":1}}', "another type"),
        (b'{"a":"1"}{"a" "b"}', "no JSON"),
        (b'{"a":"1"} x', "no JSON object"),
        (b'{"a":"1"}{"a":', "ends within"),
        (b'{"a":"1"}{"n":1.5}', "the field n is no INT64"),
    ],
)
def test_bad_json(tmp_path: Path, data: bytes, why: str) -> None:
    folder = Folder(tmp_path, SpoolDirJsonSourceConnector, value_schema=schema(a="STRING?", n="INT64?"))
    folder.file("a.json", data)
    walk = Walk(folder)
    with pytest.raises(SpoolError, match=rf"{why}.*\(in record 2\)"):
        walk.all()


def test_json_as_text(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SpoolDirSchemaLessJsonSourceConnector)
    folder.file("a.json", '[{ "a" : 1.10,\n "b c" : "é \\" }" },\n{"x":[ 1, 2 ]}]'.encode())
    assert Walk(folder).values() == ['{"a":1.10,"b c":"é \\" }"}', '{"x":[1,2]}']


def test_lines(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SpoolDirLineDelimitedSourceConnector)
    folder.file("a.txt", "\ufeffone\r\n\ntwo\rthree".encode())
    assert Walk(folder).values() == ["one", "", "two", "three"]


def test_records_longer_than_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_records, "CHUNK_BYTES", 16)
    folder = Folder(tmp_path, SpoolDirCsvSourceConnector, value_schema=schema(a="STRING", b="STRING"))
    rows = [["x" * number, f'{number}\r\n"' * (number % 3)] for number in range(100)]
    quoted = [[cell.replace('"', '""') for cell in row] for row in rows]
    folder.file("a.csv", "".join('{},"{}"\r\n'.format(*row) for row in quoted).encode())
    assert [list(value.values()) for value in Walk(folder).values()] == rows


def test_a_line_end_that_is_escaped_at_the_end_of_a_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"one\ntwo\\\nlines\n"
    monkeypatch.setattr(text_records, "CHUNK_BYTES", data.index(b"lines"))
    folder = Folder(tmp_path, SpoolDirCsvSourceConnector, value_schema=schema(a="STRING"))
    folder.file("a.csv", data)
    assert Walk(folder).values() == [{"a": "one"}, {"a": "two\nlines"}]


def test_bytes_have_no_encoding(tmp_path: Path) -> None:
    settings = {"input_format": "binary", "file_charset": "UTF-16"}
    folder = Folder(tmp_path, SpoolDirSourceConnector, **settings)
    folder.file("a.bin", b"\xe4")
    assert Walk(folder).values() == [b"\xe4"]


def test_bytes(tmp_path: Path) -> None:
    folder = Folder(tmp_path, SpoolDirBinaryFileSourceConnector)
    folder.file("a.bin", b"\x00\xff\n")
    folder.file("b.bin", b"")
    assert Walk(folder).values() == [b"\x00\xff\n", b""]
    assert folder.names("done") == ["a.bin", "b.bin"]


def test_avro_and_parquet(tmp_path: Path) -> None:
    order = {"type": "record", "name": "Order", "fields": [{"name": "n", "type": "long"}]}
    folder = Folder(tmp_path, SpoolDirAvroSourceConnector)
    with (folder.root / "in/a.avro").open("wb") as file:
        fastavro.writer(file, order, [{"n": number} for number in range(50)])
    assert [value["n"] for value in Walk(folder).values(SMALL)] == list(range(50))
    folder.file("b.avro", b"no avro")
    with pytest.raises(SpoolError, match=r"b\.avro cannot be read: .*not an Avro"):
        Walk(folder).values()
    folder = Folder(tmp_path, SpoolDirSourceConnector, input_format="parquet")
    pq.write_table(pa.table({"n": range(50), "t": ["x"] * 50}), folder.root / "in/a.parquet")
    pq.write_table(pa.table({"m": [1.5]}), folder.root / "in/b.parquet")
    values = Walk(folder).values()
    assert [value["n"] for value in values[:50]] == list(range(50))
    assert values[50:] == [{"m": 1.5}]


def test_generated_schemas(tmp_path: Path) -> None:
    settings = {"schema_generation_enabled": "true", "schema_generation_key_fields": "id"}
    folder = Folder(tmp_path, SpoolDirCsvSourceConnector, csv_first_row_as_header="true", **settings)
    folder.file("a.csv", b"id,name\n01,x\n")
    (row,) = Walk(folder).all()
    assert (row["key"], row["value"]) == ({"id": "01"}, {"id": "01", "name": "x"})
    folder = Folder(tmp_path, SpoolDirCsvSourceConnector, schema_generation_enabled="true")
    folder.file("a.csv", b"01,x\n")
    assert Walk(folder).values() == [{"column01": "01", "column02": "x"}]
    folder = Folder(tmp_path, SpoolDirJsonSourceConnector, **settings)
    folder.file("a.json", b'{"id": 1.10, "ok": true, "none": null}')
    (row,) = Walk(folder).all()
    assert (row["key"], row["value"]) == ({"id": "1.10"}, {"id": "1.10", "ok": "true", "none": None})
    folder.file("b.json", b'{"id": 1}')
    folder.file("c.json", b'{"other": 1}')
    with pytest.raises(SpoolError, match="no schema can be made of both"):
        Walk(folder)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({}, "value.schema"),
        ({"value.schema": "{"}, "value.schema"),
        ({"value.schema": schema(a="BYTES")}, "value.schema"),
        ({"value.schema": schema(a="STRING"), "csv.strict.quotes": "true"}, "csv.strict.quotes"),
        ({"value.schema": schema(a="STRING"), "csv.separator.char": "34"}, "csv.separator.char"),
        ({"value.schema": schema(a="STRING"), "finished.path": ""}, "finished.path"),
        (
            {"value.schema": schema(a="Timestamp?"), "timestamp.mode": "FIELD", "timestamp.field": "a"},
            "timestamp.field",
        ),
        ({"value.schema": schema(a="STRING"), "error.path": "/in"}, "error.path"),
    ],
)
def test_settings_that_contradict(settings: dict[str, str], key: str) -> None:
    paths = {"input.path": "/in", "finished.path": "/done", "error.path": "/bad"}
    given = {"topic": "t", "input.file.pattern": ".*"} | paths | settings
    assert [one.key for one in SpoolDirCsvSourceConnector().validate(given)] == [key]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("csv.file.charset", "utf-99"), ("csv.file.charset", "hex"), ("parser.timestamp.timezone", "Mars"),
        ("parser.timestamp.date.formats", "yyyy-DDD"), ("cleanup.policy", "BURN"), ("task.partitioner", "ByAge"),
        ("metadata.location", "FIELD"), ("csv.separator.char", "0"), ("files.sort.attributes", "Age"),
    ],
)  # fmt: skip
def test_values_that_are_not_served(key: str, value: str) -> None:
    given = {"topic": "t", "input.path": "/in", "error.path": "/bad", "input.file.pattern": ".*", key: value}
    assert [one.key for one in SpoolDirCsvSourceConnector.settings.problems(given)] == [key]


def test_connectors_that_are_refused_name_another() -> None:
    for refused, other in (
        (SpoolDirELFSourceConnector, "SpoolDirCsvSourceConnector"),
        (FilePulseSourceConnector, "SpoolDirSourceConnector"),
    ):
        (problem,) = refused().validate({"connector.class": refused.__name__})
        assert other in problem.remedy


def test_the_example_of_the_page(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "spool.md").read_text(encoding="utf-8")
    given = json.loads(page.partition("-d '")[2].partition("'\n")[0])
    rig = Folder(tmp_path, SpoolDirCsvSourceConnector)
    settings = {key.replace(".", "_"): value for key, value in given.items() if not key.endswith(".path")}
    rig.settings = settings | {"connector_class": "SpoolDirCsvSourceConnector"}
    rig.file("orders.csv", page.partition("printf '")[2].partition("'")[0].replace("\\n", "\n").encode())
    placed = dt.datetime(2026, 1, 31, 10, tzinfo=dt.UTC)
    assert Walk(rig).values() == [{"id": 1, "name": "Smith, J.", "placed": placed}]
