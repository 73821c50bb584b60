"""The door for plugin authors: begin with `contracts`, then `records` and `schema`; test a plugin with `testkit`.

The file connectors (`connectors/file/`) are made of this and of settings alone. `transforms/` has the built-in
transforms, `interop/` what the worker and the shipped plugins share. `record_api/` is the layer of records; its names
and those of its errors are imported from here.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

if TYPE_CHECKING:
    from headrace.plugins.contracts import ArrowReader as ArrowReader
    from headrace.plugins.contracts import ArrowWriter as ArrowWriter
    from headrace.plugins.contracts import Connector as Connector
    from headrace.plugins.contracts import Plan as Plan
    from headrace.plugins.contracts import SinkTask as SinkTask
    from headrace.plugins.contracts import SourceTask as SourceTask
    from headrace.plugins.contracts import Split as Split
    from headrace.plugins.errors import DataError as DataError
    from headrace.plugins.errors import RecordsFailed as RecordsFailed
    from headrace.plugins.errors import RetriableError as RetriableError
    from headrace.plugins.extensions import Effect as Effect
    from headrace.plugins.java_text import value_text as value_text
    from headrace.plugins.record_api.converter import RecordConverter as RecordConverter
    from headrace.plugins.record_api.record import Record as Record
    from headrace.plugins.record_api.schemas import schema_of as schema_of
    from headrace.plugins.record_api.settings import Setting as Setting
    from headrace.plugins.record_api.settings import declared as declared
    from headrace.plugins.record_api.sink import RecordSink as RecordSink
    from headrace.plugins.record_api.source import RecordSource as RecordSource
    from headrace.plugins.record_api.transform import RecordPredicate as RecordPredicate
    from headrace.plugins.record_api.transform import RecordTransform as RecordTransform
    from headrace.plugins.records import Records as Records
    from headrace.plugins.records import source_records as source_records

_HOMES = {
    "ArrowReader": "contracts",
    "ArrowWriter": "contracts",
    "Connector": "contracts",
    "DataError": "errors",
    "Effect": "extensions",
    "Plan": "contracts",
    "Record": "record_api.record",
    "RecordConverter": "record_api.converter",
    "RecordPredicate": "record_api.transform",
    "RecordSink": "record_api.sink",
    "RecordSource": "record_api.source",
    "RecordTransform": "record_api.transform",
    "Records": "records",
    "RecordsFailed": "errors",
    "RetriableError": "errors",
    "Setting": "record_api.settings",
    "SinkTask": "contracts",
    "SourceTask": "contracts",
    "Split": "contracts",
    "declared": "record_api.settings",
    "schema_of": "record_api.schemas",
    "source_records": "records",
    "value_text": "java_text",
}
"""Names that authors of connectors over records import from here; loaded when asked for, since most need Spark."""


def __getattr__(name: str) -> _Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
