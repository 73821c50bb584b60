"""`headrace.transforms.Python`: a user's function over Arrow batches.

    transforms.x.type=headrace.transforms.Python
    transforms.x.function=my_functions:score
    transforms.x.schema=id BIGINT NOT NULL, score DOUBLE
    transforms.x.metadata=topic, timestamp

    def score(batch: pa.RecordBatch, settings: dict[str, str]) -> pa.RecordBatch: ...

The function gets the values of one schema at a time: a column for each field of a struct, else the column `value`
(schemaless: JSON text). It also gets the record's own columns named by `metadata`, as `_topic` … (`_timestamp` in ms),
unless a field of that name hides them. A function of two parameters also gets all other settings, as text. It returns a
batch of as many rows in the same order; or that and a boolean array of the rows to keep. The setting `schema`, or an
attribute `schema` of the function (Spark's DDL, a StructType or an Arrow schema), declares the columns returned;
`_topic`, `_partition`, `_timestamp`, `_headers`, `_key` and `_value` then set the record's own. Without either it
returns the columns that it got.

Null values (tombstones) bypass it unchanged, and so do failed and filtered records. An exception fails the batch and
with it the task; after a RetriableError the batch is tried again. An impossible partition or header fails its record.

Decided: a function is only called if the worker's `python.transforms.allowed` names its module or a package above it,
because otherwise anyone who may create connectors over REST could run any installed code; loses: an operator has to set
it once. It runs in the worker for small batches and in Spark's executors for large ones, so it must be importable on
both, by pip or `plugin.path`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.config.problems import ConfigError, Problem
from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import Check
from headrace.plugins.arrow_types import arrow_schema_of, struct_of
from headrace.plugins.contracts import Transform
from headrace.plugins.interop.catalyst.arrow_functions import ArrowFunction
from headrace.plugins.interop.catalyst.spark_internals import attempted
from headrace.plugins.records import HEADERS, Records
from headrace.plugins.schema import Schema, SchemaType, spark_type
from headrace.plugins.transforms.derived_schema import derived_field
from headrace.plugins.transforms.new_columns import (
    OWN,
    MadeColumn,
    NewColumns,
    parts_of,
    with_new_columns,
    without_null_values,
)
from headrace.plugins.transforms.python_batches import GROUP, Batches, RowGroup, home_of, loaded

_OWN_TYPES: Final = {
    "topic": spark.StringType(),
    "partition": spark.IntegerType(),
    "offset": spark.LongType(),
    "timestamp": spark.LongType(),
    "headers": HEADERS,
}
METADATA: Final = (*_OWN_TYPES, "key")
_CAN_FAIL: Final = {"partition": "a partition", "headers": "headers"}
"""Parts of a record whose type has impossible values."""
_Parts = dict[str, tuple[Column, Schema | None]]


def _reference(name: str, value: Any) -> str | None:
    module, _, function = (value or "").partition(":")
    if all(part.isidentifier() for part in (*module.split("."), *function.split("."))):
        return None
    return f"Invalid value {value} for configuration {name}: it has to be of the form module:function"


def _module(reference: str) -> str:
    return reference.partition(":")[0]


def _known(name: str, value: Any) -> str | None:
    unknown = [one for one in value or [] if one not in METADATA]
    return (
        f"Invalid value {unknown[0]} for configuration {name}: choose among {', '.join(METADATA)}" if unknown else None
    )


SETTINGS: Final = Settings(
    Setting(
        "function",
        Type.STRING,
        validator=Check(_reference, "module:function"),
        importance=Importance.HIGH,
        documentation="The function, as module:function; its module has to be among python.transforms.allowed, which "
        "the worker's operator sets.",
    ),
    Setting(
        "schema",
        Type.STRING,
        None,
        importance=Importance.MEDIUM,
        documentation="The columns that it gives, in Spark's DDL; without it what the function's attribute schema "
        "says, and without that what it gets.",
    ),
    Setting(
        "metadata",
        Type.LIST,
        [],
        Check(_known, f"some of {', '.join(METADATA)}"),
        Importance.LOW,
        "What it gets of the record besides its value, as _topic, …: any of topic, partition, offset, timestamp, key "
        "and headers.",
    ),
)


class Python(Transform):
    """Applies a Python function to the values of a batch."""

    settings = SETTINGS
    version = "1.0.0"
    undeclared = ("",)

    def validate(self, config: Mapping[str, str]) -> list[Problem]:
        """Return a problem if the worker does not allow the module."""
        problem = self._objection(config["function"], _module(config["function"]))
        return [] if problem is None else [problem]

    def configure(self, config: Mapping[str, str]) -> None:
        """Configure and import the function. Errors: ConfigError if it cannot or may not be imported."""
        parsed = SETTINGS.parse(config)
        self._reference: str = parsed["function"]
        self._ddl: str | None = parsed["schema"]
        self._metadata: list[str] = parsed["metadata"]
        self._settings = {key: value for key, value in config.items() if key not in SETTINGS}
        self._refuse_module(_module(self._reference))
        try:
            self._function = loaded(self._reference)
        except (Exception, SystemExit) as error:
            raise self._refused(
                f"It cannot be imported: {type(error).__name__}: {error}.",
                "Install its module on every worker, or put it on plugin.path.",
            ) from error
        self._refuse_module(home_of(self._function))  # the module may only import it from another one
        self._kept: list[ArrowFunction] = []

    def apply(self, records: Records) -> Records:
        """Apply the function to each group of rows. Errors: ConfigError if the declared schema is invalid."""
        records = without_null_values(records)
        declared = self._declared()
        groups = list(self._groups(records, declared))
        if not groups:
            return records
        given = records.frame.withColumn(GROUP, _group_of(groups, records))
        types = [spark.StructField(group.column, _answer(group.gives)) for group in groups]
        made = spark.StructType([*given.schema.fields, *types])
        batches = Batches(self._reference, self._settings, tuple(groups), arrow_schema_of(made))
        function = ArrowFunction(batches)
        self._kept = [*self._kept[-8:], function]  # found by name while it is referenced
        done = records.with_frame(given.mapInArrow(function, made))
        changes, messages, left_out = [], [F.lit(None).cast("string")], []
        for group in groups:
            holds = F.coalesce(F.col(GROUP) == group.number, F.lit(False))
            keep = F.col(group.column).getField("keep")
            parts = self._unchanged(group, done) if declared is None else self._changed(group, done, declared)
            for name in [name for name in _CAN_FAIL if name in parts]:
                column, schema = parts[name]
                tried = attempted(F.struct(column.alias(name)), given.sparkSession)
                parts[name] = tried.getField(name), schema
                told = F.lit(f"{self._reference} gave {_CAN_FAIL[name]} that no record can have")
                messages.append(F.when(holds & keep & tried.isNull(), told))
            changes.append(NewColumns(holds & keep, group.value, parts, whole=not group.several))
            left_out.append(F.when(holds, ~keep))
        changed = with_new_columns(done, changes, F.coalesce(*messages), F.coalesce(*left_out))
        return changed.with_frame(changed.frame.drop(GROUP, *(group.column for group in groups)))

    def _refuse_module(self, module: str) -> None:
        if (problem := self._objection(self._reference, module)) is not None:
            raise ConfigError(problem)

    def _objection(self, reference: str, module: str) -> Problem | None:
        allowed = self.worker.get("python.transforms.allowed", [])
        if any(one == "*" or module == one or module.startswith(f"{one}.") for one in allowed):
            return None
        message = f"This worker allows no functions of the module {module}."
        remedy = f"Its operator may allow them with python.transforms.allowed={module} in the worker's properties."
        return Problem("function", reference, message, remedy)

    def _refused(self, message: str, remedy: str) -> ConfigError:
        return ConfigError(Problem("function", self._reference, message, remedy))

    def _groups(self, records: Records, declared: spark.StructType | None) -> Iterator[RowGroup]:
        """Yield the groups that the function gets: one schema of values and, if it gets keys, one of keys."""
        keys = [*range(len(records.keys)), None] if "key" in self._metadata else [None]
        for number, (value, key) in enumerate((v, k) for v in range(len(records.values)) for k in keys):
            schema = records.values[value]
            fields = _fields(schema)
            hidden = {field.name for field in fields} | (set() if "offset" in records.frame.columns else {"_offset"})
            metadata = [name for name in self._metadata if f"_{name}" not in hidden]
            columns = {
                f"_{name}": name if name != "key" else None if key is None else f"key_{key}" for name in metadata
            }
            key_type = spark.StringType() if key is None else spark_type(records.keys[key])
            own = [spark.StructField(f"_{name}", {**_OWN_TYPES, "key": key_type}[name]) for name in metadata]
            yield RowGroup(
                number,
                value,
                key,
                len(keys) > 1,
                tuple(field.name for field in fields),
                schema is not None and schema.type is SchemaType.STRUCT,
                columns,
                _nullable(spark.StructType([*fields, *own]) if declared is None else declared),
            )

    def _declared(self) -> spark.StructType | None:
        given = self._ddl if self._ddl is not None else getattr(self._function, "schema", None)
        if given is None:
            return None
        try:
            kind = spark.StructType.fromDDL(given) if isinstance(given, str) else given
            kind = struct_of(kind) if isinstance(kind, pa.Schema) else kind
            if not isinstance(kind, spark.StructType):
                raise TypeError(f"{type(given).__name__} is none")
        except Exception as error:
            why = f"It is no schema: {str(error).splitlines()[0]}."
            raise ConfigError(
                Problem("schema", str(given), why, "Write it as in id BIGINT NOT NULL, name STRING.")
            ) from error
        return kind

    def _changed(self, group: RowGroup, records: Records, declared: spark.StructType) -> _Parts:
        """Return the declared columns. Errors: ConfigError."""
        made = F.col(group.column)
        fields = [field for field in declared.fields if field.name != "_offset"]
        try:
            columns = [_part(field, made.getField("row").getField(field.name)) for field in fields]
            parts = parts_of(columns, records.values[group.value], records)
        except ValueError as error:
            shown = declared.simpleString()
            raise ConfigError(Problem("schema", shown, f"It does not suit: {error}.", "Change schema.")) from error
        return {name: (F.when(made.isNotNull(), part.column), part.schema) for name, part in parts.items()}

    def _unchanged(self, group: RowGroup, records: Records) -> _Parts:
        """Return the function's columns under the schemas of its inputs."""
        made = F.col(group.column).getField("row")
        members = [made.getField(name).alias(name) for name in group.fields]
        value = F.struct(*members) if group.is_struct else made.getField("value")
        parts: _Parts = {"value": (F.when(made.isNotNull(), value), records.values[group.value])}
        for name, column in group.metadata.items():
            if name == "_key" and column is not None:
                parts["key"] = made.getField(name), records.keys[int(column.partition("_")[2])]
            elif name not in ("_key", "_offset"):
                parts[name[1:]] = made.getField(name), None
        return parts


def _answer(gives: spark.StructType) -> spark.StructType:
    return spark.StructType().add("keep", "boolean").add("row", gives)


def _nullable(kind: spark.StructType) -> spark.StructType:
    """Make everything nullable: Spark would trust a not-null type, whatever the function returns."""
    text = kind.json()
    for key in ("nullable", "containsNull", "valueContainsNull"):
        text = text.replace(f'"{key}":false', f'"{key}":true')
    return spark.StructType.fromJson(json.loads(text))


def _fields(schema: Schema | None) -> list[spark.StructField]:
    if schema is not None and schema.type is SchemaType.STRUCT:
        return [spark.StructField(field.name, spark_type(field.schema)) for field in schema.fields]
    return [spark.StructField("value", spark_type(schema))]


def _group_of(groups: Sequence[RowGroup], records: Records) -> Column:
    """Return the number of each row's group; null for rows that the function does not get."""
    alive = F.col("error").isNull() & ~F.col("drop")
    alive = alive if records.applies is None else alive & records.applies
    number = F.lit(None).cast("int")
    for group in groups:
        holds = alive & (F.col("value_schema") == group.value) & records.value(group.value).isNotNull()
        if group.several:
            holds = holds & F.col("key_schema").eqNullSafe(F.lit(group.key).cast("int"))
        number = F.when(holds, F.lit(group.number)).otherwise(number)
    return number


def _part(field: spark.StructField, column: Column) -> MadeColumn:
    if field.name.lower() in OWN and field.name.lower() not in ("_key", "_value"):
        return MadeColumn(field.name, column, field.dataType, None)
    return MadeColumn(field.name, column, field.dataType, derived_field(field).schema)
