"""`headrace.transforms.Sql`: what a SELECT makes of records, inline and in a job."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError
from headrace.plugins.interop.catalyst.spark_internals import functions_known, scala_object
from headrace.plugins.records import Records
from headrace.plugins.schema import DECIMAL, OPTIONAL_STRING, STRING, TIMESTAMP, Field, Schema, SchemaType
from headrace.plugins.transforms import sql_functions
from headrace.plugins.transforms.sql import Sql
from headrace.plugins.transforms.sql_select import Select
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import ProjectionPool
from tests.spark.applying import Became, Given, applied

pytestmark = pytest.mark.spark

_NEW = """collect_union counter_diff from_base32 hmac jaro_winkler_similarity localtime timestamp_nanos to_base32
try_variant_array_append try_variant_insert try_variant_set unix_nanos variant_array_append variant_delete
variant_insert variant_set variant_strip_nulls"""
NEW_FUNCTIONS = frozenset(_NEW.split())
NEW_OPTIONS = frozenset({"explodeEmbeddedArray"})
"""Both since Spark 4.3."""
T = SchemaType
INT = Schema(T.INT32)
NAME = Schema(T.STRING, optional=True, default="nobody", doc="of a person")
CITY = Schema(T.STRUCT, optional=True, fields=(Field("city", STRING),))
MONEY = Schema(T.BYTES, name=DECIMAL, version=1, parameters={"scale": "2"})
ROW = Schema(
    T.STRUCT,
    name="org.Row",
    version=3,
    doc="rows",
    optional=True,
    fields=(Field("id", INT), Field("name", NAME), Field("topic", OPTIONAL_STRING), Field("at", CITY)),
)


@pytest.fixture(scope="module")
def pool(engine: Spark) -> Iterator[ProjectionPool]:
    pool = ProjectionPool(engine, lanes=1)
    yield pool
    pool.stop()


def sql(text: str) -> Sql:
    made = Sql()
    made.configure({"sql": text})
    return made


def row(id: int, name: str | None = "a", topic: str | None = None, city: str | None = None) -> Given:
    return Given({"id": id, "name": name, "topic": topic, "at": city and {"city": city}})


class Run:
    """Applies SELECTs."""

    def __init__(self, session: SparkSession, pool: ProjectionPool) -> None:
        self._session, self._pool = session, pool

    def __call__(
        self,
        text: str,
        given: Sequence[Given],
        values: Sequence[Schema | None] = (ROW,),
        keys: Sequence[Schema | None] = (),
        only: Column | None = None,
        in_job: bool = True,
    ) -> list[Became]:
        def apply(records: Records) -> Records:
            records = replace(records, by="headrace.transforms.Sql", applies=only, header_bytes=_text_bytes)
            return sql(text).apply(records)

        return applied(self._session, self._pool, apply, given, values, keys, in_job)


def _text_bytes(column: Column, schema: Schema | None) -> tuple[Column, Column]:
    refused = F.when(column.cast("string") == "refused", F.lit("no header can be that"))
    return F.when(refused.isNull(), column.cast("string").cast("binary")), refused


@pytest.fixture(scope="module")
def run(spark: SparkSession, pool: ProjectionPool) -> Run:
    return Run(spark, pool)


def test_what_is_selected_is_the_new_value_with_its_schema(run: Run) -> None:
    text = """SELECT ID AS id, upper(name) AS up, name, topic, record.topic AS origin, at.city, id / 2 AS half,
              cast(id AS DECIMAL(9,2)) AS price, timestamp, array(id, NULL) AS many, map('k', at) AS m,
              records.name AS again, value.id AS deep
              FROM Records WHERE id <> 3"""
    done, dropped, missing = run(text, [row(1, "x", "own", "B"), row(3), row(4, None)])
    assert done.value | {"timestamp": None} == {
        "id": 1,
        "up": "X",
        "name": "x",
        "topic": "own",
        "origin": "t",
        "city": "B",
        "half": 0.5,
        "price": done.value["price"],
        "timestamp": None,
        "many": [1, None],
        "m": [("k", {"city": "B"})],
        "again": "x",
        "deep": 1,
    }
    assert str(done.value["price"]) == "1.00"
    assert done.value["timestamp"].timestamp() == 1
    assert (dropped.drop, missing.drop) == (True, False)
    assert [missing.value[name] for name in ("up", "city", "half")] == [None, None, 2.0]
    assert done.schema is not None
    schemas = {field.name: field.schema for field in done.schema.fields}
    assert schemas == {
        "id": INT,
        "up": OPTIONAL_STRING,
        "name": NAME,
        "topic": OPTIONAL_STRING,
        "origin": STRING,
        "city": OPTIONAL_STRING,
        "half": Schema(T.FLOAT64, optional=schemas["half"].optional),
        "price": replace(MONEY, optional=schemas["price"].optional),
        "timestamp": Schema(T.INT64, optional=True, name=TIMESTAMP, version=1),
        "many": Schema(T.ARRAY, value_schema=Schema(T.INT32, optional=True)),
        "m": Schema(T.MAP, key_schema=STRING, value_schema=Schema(T.STRUCT, True, fields=CITY.fields)),
        "again": NAME,
        "deep": Schema(T.INT32, optional=True),
    }
    assert replace(done.schema, fields=()) == replace(ROW, fields=())


def test_a_column_may_name_one_before_it(run: Run) -> None:
    (done,) = run("SELECT id * 10 AS ten, ten + 1 AS more FROM records WHERE id > 0", [row(1)])
    assert done.value == {"ten": 10, "more": 11}


def test_the_star_means_the_values_fields_and_names_beside_it_the_record(run: Run) -> None:
    text = """SELECT *, 1 AS one, upper(name) AS name, record.topic || '-x' AS _topic, offset + 10 AS _partition,
              record.timestamp + INTERVAL 1 SECOND AS _timestamp, map('h', id) AS _headers, id AS _key,
              to_json(struct(*)) AS j FROM records"""
    first, nothing, tombstone = run(text, [row(1), Given(None), Given(None, None, "k", 0)], keys=(STRING,))
    assert list(first.value) == ["id", "name", "topic", "at", "one", "j"]
    assert (first.value["name"], first.value["j"]) == ("A", '{"id":1,"name":"a"}')
    assert (first.topic, first.partition, first.timestamp, first.key) == ("t-x", 10, 2000, 1)
    assert (first.headers, first.key_schema) == ([{"key": "h", "value": b"1"}], INT)
    assert (nothing.value, nothing.schema, nothing.topic, nothing.error) == (None, first.schema, "t-x", None)
    assert (tombstone.has_value, tombstone.topic, tombstone.partition) == (False, "t-x", 12)
    assert (tombstone.key, tombstone.key_schema) == ("k", STRING)  # its id is null, and no reason to lose the key


def test_a_header_that_cannot_be_one_is_an_error_of_its_record(run: Run) -> None:
    done, failed = run("SELECT map('h', value) AS _headers FROM records", [Given("a"), Given("refused")], (STRING,))
    assert done.headers == [{"key": "h", "value": b"a"}]
    assert failed.error == "what was selected cannot be converted"


def test_the_record_itself(run: Run) -> None:
    made, _ = run("SELECT record FROM records", [row(1), Given(None)], keys=(None,))
    assert {name: made.value["record"][name] for name in ("topic", "offset", "headers", "key")} == {
        "topic": "t",
        "offset": 0,
        "headers": None,
        "key": None,
    }
    assert made.value["record"]["value"]["id"] == 1
    plain = replace(Given('{"a":[1]}'), headers=[{"key": "h", "value": b"1"}])
    (whole,) = run("SELECT record.* FROM records", [plain], (None,))
    (inner,) = run("SELECT record AS r, record.value AS v FROM records", [plain], (None,))
    assert {**whole.value, "timestamp": None} == {**inner.value["r"], "timestamp": None}
    assert (inner.value["r"]["value"], inner.value["v"]) == ('{"a":[1]}', '{"a":[1]}')
    assert inner.value["r"]["headers"] == [{"key": "h", "value": b"1"}]


def test_nulls_stay_null_whatever_their_schema(run: Run) -> None:
    (member,) = run("SELECT id AS _value FROM records", [Given(None)])
    assert (member.value, member.schema) == (None, replace(INT, optional=True))
    text = "SELECT coalesce(value, 0) AS _value, 'x' AS _topic FROM records WHERE value > 0"
    null, dropped = run(text, [Given(None), Given(0)], (replace(INT, optional=True),))
    assert (null.value, null.drop, null.topic) == (None, False, "x")
    assert dropped.drop


def test_what_spark_cannot_hold_is_an_error_where_it_is_asked_for(run: Run) -> None:
    deep = Given("[" * 1200 + "]" * 1200)
    (asked,) = run("SELECT value:a AS v FROM records", [deep], (None,))
    (unasked,) = run("SELECT *, 'x' AS _topic FROM records", [deep], (None,))
    assert asked.error == "The value is JSON that a VARIANT cannot hold"
    assert (unasked.error, unasked.topic, unasked.value) == (None, "x", deep.value)
    late = replace(row(1), timestamp=2**62)
    (asked,) = run("SELECT timestamp AS at FROM records", [late])
    (unasked,) = run("SELECT record.topic AS t FROM records", [late])
    assert asked.error == f"The timestamp {2**62} ms is beyond the year 294246"
    assert (unasked.error, unasked.value) == (None, {"t": "t"})


def test_a_select_is_parsed_once(spark: SparkSession) -> None:
    made = sql("SELECT 1 AS one FROM records")
    assert made._parsed(spark) is made._parsed(spark)


def test_without_members_the_value_stays(run: Run) -> None:
    for text in (
        "SELECT 'other' AS _topic FROM records",
        "SELECT value, 'other' AS _topic FROM records",
        "SELECT *, 'other' AS _topic FROM records",
    ):
        (done,) = run(text, [row(1)], in_job=False)
        assert (done.topic, done.schema, done.value["id"]) == ("other", ROW, 1)


def test_a_value_that_is_no_struct(run: Run) -> None:
    done, failed, nothing = run(
        "SELECT value + 1 AS _value, value AS _key FROM records",
        [Given(1), Given(2**31 - 1), Given(None)],
        (replace(INT, optional=True),),
    )
    assert (done.value, done.schema, done.key) == (2, replace(INT, optional=True), 1)
    assert failed.error == "(value + 1) cannot be computed"
    assert (nothing.value, nothing.error) == (None, None)
    (member,) = run("SELECT *, length(value) AS n FROM records", [Given("abc")], (STRING,))
    assert member.value == {"value": "abc", "n": 3}
    assert member.schema == Schema(T.STRUCT, fields=(Field("value", STRING), Field("n", INT)))


def test_schemaless_values_are_variants_inside(run: Run) -> None:
    documents = [Given('{"a":1,"b":[1,{"c":"x"}]}'), Given('{"a":2.5,"b":"t"}'), Given('"x"'), Given(None)]
    done = run("SELECT value:a::DOUBLE AS a, value:b AS b, value:b[1].c::STRING AS c FROM records", documents, (None,))
    assert [one.value for one in done] == [
        {"a": 1.0, "b": '[1,{"c":"x"}]', "c": "x"},
        {"a": 2.5, "b": "t", "c": None},
        {"a": None, "b": None, "c": None},
        None,
    ]
    assert not done[3].has_value
    kept = run("SELECT *, value:a AS _key FROM records WHERE value:a::DOUBLE > 2", documents, (None,))
    assert [(one.drop, one.value) for one in kept[1:2]] == [(False, documents[1].value)]
    assert [one.drop for one in kept] == [True, False, True, False]
    assert (kept[1].schema, kept[1].key, kept[1].key_schema) == (None, "2.5", None)
    again, *_ = run("SELECT parse_json('[1]') AS _value FROM records", documents[:1], (None,))
    assert (again.value, again.schema) == ("[1]", None)


def test_an_expression_that_fails_fails_its_record_alone(run: Run) -> None:
    text = """SELECT cast(name AS INT) + 1 AS n, 10 DIV id AS d, element_at(array(1), id) AS e
              FROM records WHERE 1 / (id - 7) < 9"""
    done = run(text, [row(1, "7"), row(1, "x"), row(0, "1"), row(7), row(2, "1"), row(1, None)])
    assert done[0].value == {"n": 8, "d": 10, "e": 1}
    assert [one.error for one in done] == [
        None,
        "(CAST(name AS INT) + 1) cannot be computed",
        "(10 div id) cannot be computed",
        "((1 / (id - 7)) < 9) cannot be computed",
        "element_at(array(1), id) cannot be computed",
        None,
    ]
    unasked, _ = run("SELECT raise_error(name) AS x FROM records WHERE id > 1", [row(1), row(2)])
    assert (unasked.drop, unasked.error) == (True, None)


def test_a_tombstone_goes_where_the_condition_is_false_without_any_value(run: Run) -> None:
    tombstone = Given(None, None)
    cases = {
        "SELECT id FROM records WHERE id > 5": False,
        "SELECT id FROM records WHERE id IS NOT NULL": True,
        "SELECT at.city AS c FROM records WHERE value IS NOT NULL AND at.city = 'B'": True,
        "SELECT id FROM records WHERE topic = 'other'": True,
        "SELECT id FROM records WHERE record.topic = 't' AND id = 1": False,
        "SELECT id FROM records WHERE value:id::INT > 5": False,
        "SELECT id FROM records WHERE tags[0] = 'x'": False,  # cannot be asked of null alone
    }
    for text, dropped in cases.items():
        (done,) = run(text, [tombstone], values=(), in_job=False)
        assert (done.drop, done.has_value, done.error) == (dropped, False, None), text


def test_records_of_several_schemas_are_selected_from_each_by_its_own(run: Run) -> None:
    other = Schema(T.STRUCT, fields=(Field("id", STRING), Field("VALUE", INT)))
    third = Schema(T.STRUCT, fields=(Field("no", STRING),))
    given = [row(1), Given({"id": "b", "VALUE": 2}, 1), Given({"no": "c"}, 2), row(3)]
    done = run("SELECT id, concat(id, '!') AS twice FROM records", given, (ROW, other, third))
    assert [one.value for one in done[:2]] == [{"id": 1, "twice": "1!"}, {"id": "b", "twice": "b!"}]
    assert [one.schema and one.schema.fields[0].schema.type for one in done[:2]] == [T.INT32, T.STRING]
    assert done[2].error is not None
    assert done[2].error.startswith("The SELECT does not fit: [UNRESOLVED_COLUMN")
    assert done[3].value == {"id": 3, "twice": "3!"}
    keys: list[Any] = [INT, STRING, None]
    given = [
        replace(row(1), key=5, key_of=0),
        replace(row(2), key="k", key_of=1),
        replace(row(3), key='{"x":9}', key_of=2),
        row(4),
    ]
    done = run("SELECT id, key AS k, key AS _key FROM records WHERE id < 9", given, keys=keys)
    assert [one.value["k"] for one in done] == [5, "k", '{"x":9}', None]
    assert [(one.key, one.key_schema and one.key_schema.type) for one in done] == [
        (5, T.INT32),
        ("k", T.STRING),
        ('{"x":9}', None),
        (None, T.STRING),
    ]


def test_names_that_differ_in_their_case_alone_and_odd_names(run: Run) -> None:
    odd = Schema(
        T.STRUCT,
        fields=(
            Field("a.b", INT),
            Field("x`y", INT),
            Field("id", INT),
            Field("ID", INT),
            Field("record", INT),
            Field("_sql_0", INT),
        ),
    )
    (done,) = run(
        "SELECT `a.b`, `x``y`, id, ID, record AS r, _record.topic AS t, _sql_0 FROM records",
        [Given({"a.b": 1, "x`y": 2, "id": 3, "ID": 4, "record": 5, "_sql_0": 6})],
        (odd,),
    )
    assert done.value == {"a.b": 1, "x`y": 2, "id": 3, "ID": 4, "r": 5, "t": "t", "_sql_0": 6}


def test_only_what_the_predicate_holds_for_and_what_is_good_is_changed(run: Run) -> None:
    error = {"stage": "VALUE_CONVERTER", "class": "C", "message": "before"}
    given = [row(1), row(2), replace(row(2), error=error), replace(row(2), drop=True), Given(None, None)]
    done = run("SELECT id AS only, id / 0 AS x FROM records WHERE id < 2", given, only=F.col("offset") != 0)
    assert (done[0].value, done[0].schema) == (given[0].value, ROW)
    assert [(one.error, one.drop) for one in done] == [
        (None, False),
        (None, True),
        ("before", False),
        (None, True),
        (None, False),
    ]
    nested = run(
        "SELECT n + 1 AS m FROM (SELECT id * 2 AS n FROM records WHERE id > 1) AS t WHERE n < 6",
        [row(1), row(2), row(3)],
    )
    assert [(one.drop, one.value and one.value["m"] if not one.drop else None) for one in nested] == [
        (True, None),
        (False, 5),
        (True, None),
    ]


REFUSED = {
    "SELECT count(*) FROM records": "an aggregate",
    "SELECT id FROM records GROUP BY id": "an aggregate",
    "SELECT DISTINCT id FROM records": "DISTINCT",
    "SELECT id FROM records ORDER BY id": "ORDER BY",
    "SELECT id FROM records LIMIT 1": "LIMIT",
    "SELECT a.id FROM records a JOIN records b ON a.id = b.id": "Join",
    "SELECT id FROM records UNION ALL SELECT id FROM records": "Union",
    "SELECT explode(array(id)) FROM records": "makes rows",
    "SELECT row_number() OVER (ORDER BY id) FROM records": "window",
    "SELECT id FROM records WHERE id IN (SELECT 1)": "subquery",
    "WITH x AS (SELECT 1) SELECT id FROM records": "WITH",
    "SELECT rand() AS r FROM records": "deterministic",
    "SELECT uuid() AS r FROM records": "deterministic",
    "SELECT current_timestamp() AS r FROM records": "current time",
    "SELECT id FROM records WHERE now() > timestamp": "current time",
    "SELECT id FROM records WHERE TIMESTAMP 'now' > timestamp": "current time",
    "SELECT id FROM elsewhere": "records",
    "SELECT 1": "without FROM",
    "TABLE records": "SELECT",
    "DROP TABLE records": "DropTable needs more",
    "INSERT OVERWRITE DIRECTORY '/tmp/x' SELECT id FROM records": "has to be SELECT",
    "INSERT OVERWRITE DIRECTORY '/tmp/x' USING json SELECT id FROM records": "has to be SELECT",
    "INSERT OVERWRITE LOCAL DIRECTORY '/tmp/x' STORED AS orc SELECT id FROM records": "has to be SELECT",
    "SELECT id FROM records WHERE >": "PARSE_SYNTAX_ERROR",
}


def test_what_asks_more_than_one_record_is_refused_at_the_start(run: Run) -> None:
    for text, why in REFUSED.items():
        with pytest.raises(ConfigError) as refused:
            run(text, [row(1)])
        assert why in str(refused.value), text


def test_what_does_not_suit_the_record_is_told(run: Run) -> None:
    for text, why in {
        "SELECT id AS _topic, id AS _timestamp, name AS _partition FROM records": "_partition cannot be string",
        "SELECT id, id AS _value FROM records": "_value is the whole value",
        "SELECT id AS _headers FROM records": "_headers is a map",
        "SELECT INTERVAL 1 DAY AS d FROM records": "d: no Connect schema is made of interval day",
        "SELECT 1 / 0 AS x FROM records": "(1 / 0) cannot be computed",
        "SELECT '${env:HOME}' + 1 AS x FROM records": "${env:HOME}",
    }.items():
        (done,) = run(text, [row(1)], in_job=False)
        assert done.error is not None
        assert why in done.error


BEYOND_THE_RECORD = {
    "SELECT reflect('java.lang.System', 'getenv', 'PATH') AS r FROM records": "function reflect",
    "SELECT try_reflect('java.lang.System', 'getenv', 'PATH') AS r FROM records": "function try_reflect",
    "SELECT from_avro(value, '\"string\"', map('avroSchemaUrl', '{file}')) AS r FROM records": "option avroSchemaUrl",
    "SELECT from_avro(value, '\"string\"', map('a', 'b', 'AVROSCHEMAURL', '{file}')) AS r FROM records": "option a ",
    "SELECT schema_of_avro('\"string\"', map('AVROSCHEMAURL', '{file}')) AS r FROM records": "option AVROSCHEMAURL",
    "SELECT from_xml(name, 'a INT', map('rowValidationXSDPath', '{url}')) AS r FROM records": "rowValidationXSDPath",
    "SELECT schema_of_xml('<a/>', map('rowValidationXSDPath', '{url}')) AS r FROM records": "rowValidationXSDPath",
    "SELECT from_xml(name, 'a INT', map(concat('rowValidation', 'XSDPath'), '{url}')) AS r FROM records": "written out",
    "SELECT map('rowValidationXSDPath', '{url}') AS m, from_xml(name, 'a INT', m) AS r FROM records": "written out",
    "SELECT from_xml(name, 'a INT', options => map('rowValidationXSDPath', '{url}')) AS r FROM records": "order only",
    "SELECT xpath_string('<!DOCTYPE a SYSTEM \"{url}\"><a/>', 'a') AS r FROM records": "function xpath_string",
    "SELECT transform(array(1), x -> xpath_string('<!DOCTYPE a SYSTEM \"{url}\"><a/>', 'a')) FROM records": "xpath",
    "SELECT builtin.xpath('<!DOCTYPE a SYSTEM \"{url}\"><a/>', 'a') AS r FROM records": "xpath",
    "SELECT IDENTIFIER('xpath')('<!DOCTYPE a SYSTEM \"{url}\"><a/>', 'a') AS r FROM records": "IDENTIFIER",
    "FROM records |> SET name = xpath_string('<!DOCTYPE a SYSTEM \"{url}\"><a/>', 'a')": "|> SET",
    "FROM records |> EXTEND xpath_string('<!DOCTYPE a SYSTEM \"{url}\"><a/>', 'a') AS x": "function xpath_string",
    "SELECT id FROM records WHERE xpath_boolean('<!DOCTYPE a SYSTEM \"{url}\"><a/>', 'a')": "function xpath_boolean",
    "SELECT n FROM (SELECT xpath_int('<!DOCTYPE a SYSTEM \"{url}\"><a/>', 'a') AS n FROM records)": "xpath_int",
    "SELECT from_protobuf(value, 'M', '{file}') AS r FROM records": "function from_protobuf",
    "SELECT elsewhere.f(id) AS r FROM records": "Spark's own",
    "SELECT no_such_function(id) AS r FROM records": "not one of the functions",
}


def test_no_select_reaches_beyond_the_record(run: Run, tmp_path: Path) -> None:
    secret = tmp_path / "schema.avsc"
    secret.write_text('"string"')
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        for text, why in BEYOND_THE_RECORD.items():
            text = text.replace("{url}", url).replace("{file}", secret.as_uri())
            with pytest.raises(ConfigError) as refused:
                run(text, [row(1)], in_job=False)
            assert why in str(refused.value), text
        with pytest.raises(BlockingIOError):  # nobody called
            server.accept()


def test_formats_are_read_with_the_options_that_are_allowed(run: Run) -> None:
    text = """SELECT from_xml('<a><n>1</n></a>', 'n INT', map('mode', 'FAILFAST', 'ROWTAG', 'a')).n AS x,
              from_json('{n:2}', 'n INT', map('allowUnquotedFieldNames', 'true')).n AS j,
              to_json(struct(id), map('pretty', 'false')) AS t, from_csv('3;4', 'a INT, b INT', map('sep', ';')).b AS c
              FROM records"""
    (done,) = run(text, [row(1)])
    assert done.value == {"x": 1, "j": 2, "t": '{"id":1}', "c": 4}


def test_functions_that_are_not_allowed_are_not_in_the_session(spark: SparkSession) -> None:
    select = Select(spark, "SELECT 1 AS one FROM records")
    with pytest.raises(AnalysisException, match="UNRESOLVED_ROUTINE"):
        select._session.sql("SELECT xpath('<a/>', 'a')")
    assert spark.sql("SELECT xpath_int('<a>1</a>', 'a')").first() == (1,)


def test_every_function_of_this_spark_is_known(spark: SparkSession) -> None:
    """Fails with a Spark that has others: put each into a list of `sql_functions`."""
    listed = functions_known(spark).listFunction().mkString("\n").splitlines()
    lists = (sql_functions.ALLOWED, sql_functions.JUDGED_LATER, sql_functions.REFUSED)
    known = frozenset().union(*lists)
    assert {name.rpartition(".")[2] for name in listed} == known - _newer(spark, NEW_FUNCTIONS)
    assert len(known) == sum(map(len, lists))


def test_every_option_of_this_spark_is_known(spark: SparkSession) -> None:
    """Fails with a Spark that has others: put each into `sql_functions`."""
    sql_classes = cast(Any, spark)._jvm.org.apache.spark.sql
    for package, name, options in (
        (sql_classes.catalyst.json, "JSONOptions", sql_functions.JSON),
        (sql_classes.catalyst.csv, "CSVOptions", sql_functions.CSV),
        (sql_classes.catalyst.xml, "XmlOptions", sql_functions.XML),
        (sql_classes.avro, "AvroOptions", sql_functions.AVRO),
    ):
        found = set(scala_object(package, name).getAllOptions().mkString("\n").splitlines())
        assert found == (options.allowed | options.refused) - _newer(spark, NEW_OPTIONS), name
        assert not options.allowed & options.refused


def _newer(spark: SparkSession, names: frozenset[str]) -> frozenset[str]:
    """The names among these that only Spark 4.3 has."""
    return names if spark.version.startswith("4.2.") else frozenset()
