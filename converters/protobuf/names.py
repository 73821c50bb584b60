"""Names in schemas, as of Confluent's converter."""

from __future__ import annotations

from typing import Final

_CONNECT: Final = "io.confluent.connect.protobuf"
TAG: Final = f"{_CONNECT}.Tag"
"""Parameter with the number of a field."""
TYPE: Final = f"{_CONNECT}.Type"
"""Parameter with the type of an integer, if Connect's does not tell it."""
ENUM: Final = f"{_CONNECT}.Enum"
"""Parameter with the name of an enum; with a symbol after it, that symbol's number."""
UNION: Final = f"{_CONNECT}.Union"
"""Beginning of the name of a struct that is a oneof."""
UNNAMED: Final = "ConnectDefault"
"""Name of structs without one, before a number."""

TIMESTAMP_TYPE: Final = "google.protobuf.Timestamp"
DATE_TYPE: Final = "google.type.Date"
TIME_TYPE: Final = "google.type.TimeOfDay"
DECIMAL_TYPE: Final = "confluent.type.Decimal"
FILES: Final = {
    TIMESTAMP_TYPE: "google/protobuf/timestamp.proto",
    DATE_TYPE: "google/type/date.proto",
    TIME_TYPE: "google/type/timeofday.proto",
    DECIMAL_TYPE: "confluent/type/decimal.proto",
}
"""The file of each message that stands for a logical type."""
META_FILE: Final = "confluent/meta.proto"
META_OPTION: Final = "confluent.field_meta"
WRAPPERS_FILE: Final = "google/protobuf/wrappers.proto"
WRAPPERS: Final = {
    f"google.protobuf.{kind}Value": wrapped
    for kind, wrapped in {
        "Double": "double",
        "Float": "float",
        "Int64": "int64",
        "UInt64": "uint64",
        "Int32": "int32",
        "UInt32": "uint32",
        "Bool": "bool",
        "String": "string",
        "Bytes": "bytes",
    }.items()
}
"""Messages around one value, and its type."""
