"""Configs of headrace.transforms.Sql and headrace.transforms.Python, taken and refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Column

from headrace.config.problems import ConfigError
from headrace.plugins.contracts import Decoded
from headrace.plugins.interop.discovery import Plugins
from headrace.plugins.schema import DATE, DECIMAL, OPTIONAL_STRING, TIMESTAMP, Field, Schema, SchemaType
from headrace.plugins.transforms.derived_schema import derived_field, strict_type
from headrace.plugins.transforms.python import Python
from headrace.plugins.transforms.sql import Sql
from headrace.worker.pipeline.transforms import Transforms

MODULE = "users_of_headrace"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of functions, on the path."""
    (tmp_path / MODULE).mkdir()
    (tmp_path / MODULE / "__init__.py").write_text("")
    (tmp_path / MODULE / "inner.py").write_text(
        "import functools, os\nfrom os import getcwd\nfrom textwrap import dedent\nnumber = 1\n"
        "def same(batch):\n    return batch\n"
        "bound = functools.partial(same)\nbound_elsewhere = functools.partial(dedent)\n"
    )
    (tmp_path / f"{MODULE}_too.py").write_text("raise SystemError('it ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield MODULE
    for name in [name for name in sys.modules if name.startswith(MODULE)]:
        del sys.modules[name]


def python(function: str, *allowed: str, **config: str) -> Python:
    made = Python()
    made.worker = {"python.transforms.allowed": list(allowed)}
    made.configure({"function": function, **config})
    return made


def test_both_are_found_by_their_names() -> None:
    found = Plugins.discover()
    assert found.find("transformation", "headrace.transforms.Sql").load() is Sql
    assert found.find("transformation", "Python").load() is Python


def test_no_function_runs_that_the_operator_did_not_allow(package: str) -> None:
    for allowed in ([], [f"{package}.other"], ["users"], [f"{package}.inner.deeper"]):
        with pytest.raises(ConfigError, match=f"python.transforms.allowed={package}.inner"):
            python(f"{package}.inner:same", *allowed)
    with pytest.raises(ConfigError, match="allows no functions"):
        python(f"{package}_too:anything", package)
    assert f"{package}_too" not in sys.modules  # not even imported
    with pytest.raises(ConfigError, match="allows no functions"):
        Python().configure({"function": f"{package}.inner:same"})


@pytest.mark.parametrize("allowed", [MODULE, f"{MODULE}.inner", "*"])
def test_what_is_allowed_is_imported(package: str, allowed: str) -> None:
    python(f"{package}.inner:bound", "json", allowed)
    made = python(f"{package}.inner:same", "json", allowed)
    assert made._function("batch") == "batch"


def test_a_task_tells_its_transforms_what_the_worker_allows(package: str) -> None:
    config = {"transforms": "x", "transforms.x.type": "Python", "transforms.x.function": f"{package}.inner:same"}
    made = Transforms.of(config, Plugins.discover(), _bytes, {"python.transforms.allowed": [package]})
    assert isinstance(made.steps[0].transform, Python)
    with pytest.raises(ConfigError, match="allows no functions"):
        Transforms.of(config, Plugins.discover(), _bytes)


def _bytes(column: Column, schema: Schema | None) -> Decoded:
    raise AssertionError("no header is made")


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (f"{MODULE}.inner:nothing", "AttributeError"),
        (f"{MODULE}.nothing:same", "ModuleNotFoundError"),
        (f"{MODULE}.inner:number", "is no function"),
        (f"{MODULE}.inner:os.getcwd", "os is a module"),
        (f"{MODULE}.inner:same.__globals__.get", "__globals__ is Python's own"),
        (f"{MODULE}.inner:__loader__.get_data", "__loader__ is Python's own"),
        (f"{MODULE}_too:same", "it ran"),
        (f"{MODULE}.inner", "of the form module:function"),
        ("", "of the form module:function"),
        ("a b:c", "of the form module:function"),
    ],
)
def test_what_is_no_function_is_refused_with_the_reason(package: str, function: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        python(function, "*")


@pytest.mark.parametrize(
    ("name", "home"), [("getcwd", "posix"), ("dedent", "textwrap"), ("bound_elsewhere", "textwrap")]
)
def test_what_a_module_imports_is_not_allowed_with_it(package: str, name: str, home: str) -> None:
    with pytest.raises(ConfigError, match=f"python.transforms.allowed={home}"):
        python(f"{package}.inner:{name}", package)
    python(f"{package}.inner:{name}", package, home)


def test_metadata_is_of_the_record(package: str) -> None:
    python(f"{package}.inner:same", "*", metadata="topic, partition,offset,timestamp,key,headers")
    with pytest.raises(ConfigError, match="choose among topic"):
        python(f"{package}.inner:same", "*", metadata="topic,value")


def test_sql_is_required() -> None:
    Sql().configure({"sql": "SELECT 1 AS one FROM records"})
    for config in ({}, {"sql": ""}):
        with pytest.raises(ConfigError, match="sql"):
            Sql().configure(config)


def test_a_spark_type_has_a_schema_and_back() -> None:
    from pyspark.sql import types as spark

    inner = spark.StructType(
        [spark.StructField("d", spark.DateType(), False), spark.StructField("v", spark.VariantType())]
    )
    kind = spark.StructType(
        [
            spark.StructField("price", spark.DecimalType(9, 2), False, {"comment": "in euros"}),
            spark.StructField("at", spark.TimestampNTZType()),
            spark.StructField("many", spark.ArrayType(spark.ByteType(), False), False),
            spark.StructField("by", spark.MapType(spark.StringType(), inner)),
        ]
    )
    price, at, many, by = (derived_field(field) for field in kind.fields)
    assert price == Field(
        "price", Schema(SchemaType.BYTES, name=DECIMAL, version=1, doc="in euros", parameters={"scale": "2"})
    )
    assert at.schema == Schema(SchemaType.INT64, optional=True, name=TIMESTAMP, version=1)
    assert many.schema == Schema(SchemaType.ARRAY, value_schema=Schema(SchemaType.INT8))
    assert by.schema.value_schema == Schema(
        SchemaType.STRUCT,
        optional=True,
        fields=(Field("d", Schema(SchemaType.INT32, name=DATE, version=1)), Field("v", OPTIONAL_STRING)),
    )
    assert strict_type(many.schema) == kind["many"].dataType
    assert strict_type(by.schema) == spark.MapType(
        spark.StringType(),
        spark.StructType([spark.StructField("d", spark.DateType(), False), spark.StructField("v", spark.StringType())]),
    )
    for other, name in (
        (spark.DayTimeIntervalType(), "interval day to second"),
        (spark.TimeType(), r"time\(6\)"),
    ):
        with pytest.raises(ValueError, match=f"length: no Connect schema is made of {name}: cast it"):
            derived_field(spark.StructField("length", other))
