"""Converters whose methods get one value: bytes from Kafka into Python's values and back.

Decided: the methods run as Spark's Arrow functions, because a converter is a column and has no batch; loses: each batch
of a connector with such a converter is a Spark job, a tenth of a second and more.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from headrace.plugins.contracts import Converter, Decoded
from headrace.plugins.errors import DataError, RetriableError
from headrace.plugins.record_api.calls import told
from headrace.plugins.record_api.columns import Side
from headrace.plugins.record_api.packing import NOTHING, Packed
from headrace.plugins.record_api.schemas import schema_of
from headrace.plugins.record_api.settings import WithSettings
from headrace.plugins.record_api.unpacking import unpacked
from headrace.plugins.schema import Schema, spark_type


class RecordConverter(WithSettings, Converter):
    """A converter of single values.

        class Csv(RecordConverter):
            def from_bytes(self, data):
                return data.decode().split(",")

            def to_bytes(self, value):
                return ",".join(value).encode()

    An error fails the record. Neither method gets None: it is None on both sides.
    """

    value_schema: ClassVar[Any] = None
    """Schema of the values that `from_bytes` returns, as `schema_of` takes it; None: JSON's values, without schema."""
    constant_identity = b""

    @abstractmethod
    def from_bytes(self, data: bytes) -> Any:
        """Return the value of these bytes."""

    @abstractmethod
    def to_bytes(self, value: Any) -> bytes:
        """Return the bytes of this value."""

    # -- the contract's side -------------------------------------------------------------------------------------------

    def configure(self, config: Mapping[str, str], is_key: bool) -> None:
        """Parse the settings. Errors: ConfigError with all problems."""
        self.take(config)

    def identify(self, data: Column) -> Column:
        """Return the one identity."""
        return F.lit(self.constant_identity)

    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        """Return the schema declared."""
        return None if self.value_schema is None else schema_of(self.value_schema)

    def decode(self, data: Column, identity: bytes, schema: Schema | None) -> Decoded:
        """Return what `from_bytes` makes of the bytes."""
        return self._called(_Decode(self, schema), data, spark_type(schema))

    def encode(self, value: Column, schema: Schema | None) -> Decoded:
        """Return what `to_bytes` makes of the value."""
        return self._called(_Encode(self, schema), value, spark.BinaryType())

    def _called(self, call: Callable[[pa.Array], pa.Array], column: Column, of: spark.DataType) -> Decoded:
        answer = spark.StructType().add("value", of).add("error", spark.StringType())

        def called(data: pa.Array) -> pa.Array:  # Spark reads the types of a function
            return call(data)

        made = cast(Any, F).arrow_udf(called, answer)(column)
        return Decoded(made.getField("value"), made.getField("error"))


@dataclass(frozen=True)
class _Decode:
    converter: RecordConverter
    schema: Schema | None

    def __call__(self, data: pa.Array) -> pa.Array:
        side = Side((self.schema,))
        made = [self._one(side, one) for one in data.to_pylist()]
        columns, faults = side.columns([one for one, _ in made])
        errors = [faults.get(row, why) for row, (_, why) in enumerate(made)]
        return pa.StructArray.from_arrays([columns[1], pa.array(errors, pa.string())], names=["value", "error"])

    def _one(self, side: Side, data: bytes | None) -> tuple[Packed, str | None]:
        if data is None:
            return NOTHING, None
        try:
            return side.pack(self.converter.from_bytes(data), 0), None
        except RetriableError:
            raise
        except DataError as fault:
            return NOTHING, str(fault)
        except Exception as fault:
            return NOTHING, told(fault)


@dataclass(frozen=True)
class _Encode:
    converter: RecordConverter
    schema: Schema | None

    def __call__(self, values: pa.Array) -> pa.Array:
        made = [self._one(value) for value in unpacked(values, self.schema)]
        data, errors = pa.array([one for one, _ in made], pa.binary()), pa.array([why for _, why in made], pa.string())
        return pa.StructArray.from_arrays([data, errors], names=["value", "error"])

    def _one(self, value: Any) -> tuple[bytes | None, str | None]:
        if value is None:
            return None, None
        try:
            data = self.converter.to_bytes(value)
            if not isinstance(data, bytes):
                raise TypeError(f"to_bytes returned a {type(data).__name__}; it has to return bytes")
            return data, None
        except RetriableError:
            raise
        except DataError as fault:
            return None, str(fault)
        except Exception as fault:
            return None, told(fault)
