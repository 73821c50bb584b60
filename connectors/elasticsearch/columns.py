"""Makes the rows of a writer, by Column expressions: each has its piece of a bulk request.

| column | |
|---|---|
| `lines` | the action and the document, each with its line end; empty: passed over; null: refused |
| `refused` | the reason, if `lines` is null |
| `index` | the name of what the document goes into |
| `mapping` | the number of the mapping by the value's schema; `NO_SCHEMA`; null: none is wanted |
| `lane` | the lane of the document's id, if the order of its writes counts; else null |
| `origin_topic`, `origin_partition`, `origin_offset` | the record's place in Kafka |

Decided: a row is one text, so that the data buffer of the column is the body of a request; loses: nothing.
Decided: an id by offset has the record's own topic, because those of two topics that a transform sends into one index
would be equal, and one document would replace the other; loses: ids equal to Confluent's after such a transform.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.connectors.elasticsearch.documents import AS_JSON, MappedWriter, document, field_text, with_time
from headrace.connectors.elasticsearch.mapping import mapping_of
from headrace.connectors.elasticsearch.names import index_name, unmapped
from headrace.connectors.elasticsearch.options import LARGEST_ID, Flavour, Ids, Nulls, SinkOptions
from headrace.plugins.interop.java.json_text import quoted
from headrace.plugins.interop.json.writing import NULL_REFUSED
from headrace.plugins.records import Records
from headrace.plugins.schema import INTEGER_BITS, Schema, SchemaType, logical

NO_SCHEMA: Final = -1
LANES: Final = 64
_INTEGER: Final = r"^-?[0-9]+$"
_NO_KEY: Final = (
    "The record has no key, and a document's id is its key. With key.ignore=true the id is topic, partition and offset"
)
_WRONG_KEY: Final = (
    "The record's key is neither a text nor an integer, and a document's id is its key. The transform "
    "ExtractField$Key takes a field of it; with key.ignore=true the id is topic, partition and offset"
)
_WRONG_ID: Final = f"The record's key is empty or longer than {LARGEST_ID} bytes, which no document's id can be"
_NO_VALUE: Final = "The record has no value; behavior.on.null.values says what then happens"
_NO_ROUTING: Final = "The record has no text or integer for routing.type"


@dataclass
class SinkColumns:
    """The expressions of one task; numbers the mappings that it meets."""

    options: SinkOptions
    mappings: list[str] = field(default_factory=list)
    """Mappings as JSON, by number; shared with the task's writers."""

    def columns(self, records: Records) -> list[Column]:
        """The columns of a writer's rows."""
        row = _Row(self.options, records)
        lines = row.lines()
        none = F.lit(None).cast("int")
        return [
            lines.alias("lines"),
            F.when(lines.isNull(), row.reason()).alias("refused"),
            row.index.alias("index"),
            self._mapping(records).alias("mapping"),
            (F.pmod(F.hash(row.index, row.id), F.lit(LANES)) if self.options.upserts else none).alias("lane"),
            F.col("_topic").alias("origin_topic"),
            F.col("_partition").alias("origin_partition"),
            F.col("_offset").alias("origin_offset"),
        ]

    def _mapping(self, records: Records) -> Column:
        options, none = self.options, F.lit(None).cast("int")
        if options.schema_ignored or not options.creates or options.is_stream:
            return none
        number = records.of_values(
            lambda value, schema: F.when(value.isNotNull(), F.lit(self._number(schema)).cast("int"))
        )
        number = F.coalesce(number, none)
        topics = options.topics_without_schema
        return F.when(~_is_in(F.col("topic"), topics), number) if topics else number

    def _number(self, schema: Schema | None) -> int | None:
        if schema is None:
            return NO_SCHEMA
        if schema.type is not SchemaType.STRUCT:
            return None
        text = json.dumps(mapping_of(schema))
        if text not in self.mappings:
            self.mappings.append(text)
        return self.mappings.index(text)


class _Row:
    """The parts of one row's action and document."""

    def __init__(self, options: SinkOptions, records: Records) -> None:
        self._options, self._records = options, records
        self.index = index_name(options, F.col("topic"))
        self._key = F.coalesce(records.of_keys(_key_text), F.lit(None).cast("string"))
        self._key_id = F.when(F.octet_length(self._key).between(1, LARGEST_ID), self._key)
        origin = [F.col("_topic"), F.lit("+"), F.col("_partition").cast("string"), F.lit("+")]
        self._origin_id = F.concat(*origin, F.col("_offset").cast("string"))
        self._has_key = F.coalesce(records.of_keys(lambda key, schema: key.isNotNull()), F.lit(False))
        self._is_null = ~F.coalesce(records.of_values(lambda value, schema: value.isNotNull()), F.lit(False))
        self.id = F.coalesce(self._by_ids(self._key_id, self._origin_id, F.lit(None)), F.lit(None).cast("string"))

    def lines(self) -> Column:
        """The piece of a bulk request; null if the row is refused."""
        document = self._document()
        written = self._by_ids(
            self._written(document, self._key_id, versioned=not self._options.upserts),
            self._written(document, self._origin_id),
            self._written(document, None),
        )
        return F.when(self._is_null, self._without_value()).otherwise(written)

    def reason(self) -> Column:
        """The reason of a refusal."""
        options, reasons = self._options, list[Column]()
        reasons.append(F.when(self.index.isNull(), unmapped(F.col("topic"))))
        if options.nulls is Nulls.FAIL:
            reasons.append(F.when(self._is_null, F.lit(_NO_VALUE)))
        no_id = (
            F.when(~self._has_key, F.lit(_NO_KEY))
            .when(self._key.isNull(), F.lit(_WRONG_KEY))
            .otherwise(F.lit(_WRONG_ID))
        )
        needs_key = self._by_ids(F.lit(True), F.lit(False), F.lit(False))
        reasons.append(F.when(needs_key & self._key_id.isNull(), no_id))
        if options.version_header:
            text = f"The record has no header {options.version_header} with a number, 0 or more, for its version"
            reasons.append(F.when(self._version().isNull(), F.lit(text)))
        if options.routing != "none":
            reasons.append(F.when(self._routing().isNull(), F.lit(_NO_ROUTING)))
        return F.coalesce(*reasons, F.lit(NULL_REFUSED))

    def _by_ids(self, key: Column, origin: Column, server: Column) -> Column:
        """One of these, by where the ids of the row's topic come from."""
        made = {Ids.KEY: key, Ids.ORIGIN: origin, Ids.SERVER: server}
        options = self._options
        usual, other = made[options.ids], made[options.ids_without_key]
        if not options.topics_without_key or options.ids is options.ids_without_key:
            return usual
        return F.when(_is_in(F.col("topic"), options.topics_without_key), other).otherwise(usual)

    def _without_value(self) -> Column:
        options, passed = self._options, F.lit("")
        if options.nulls is Nulls.FAIL:
            return F.lit(None).cast("string")
        if options.nulls is Nulls.IGNORE or options.is_stream:
            return passed
        deleted = F.concat(self._action("delete", self._key_id, versioned=not options.upserts), F.lit("\n"))
        return self._by_ids(F.when(self._has_key, deleted).otherwise(passed), passed, passed)

    def _written(self, document: Column, id_: Column | None, versioned: bool = False) -> Column:
        options = self._options
        if options.is_stream:
            return F.concat(self._action("create", id_), F.lit("\n"), document, F.lit("\n"))
        if options.upserts:
            changed = (F.lit('\n{"doc":'), document, F.lit(',"doc_as_upsert":true}\n'))
            return F.concat(self._action("update", id_), *changed)
        return F.concat(self._action("index", id_, versioned), F.lit("\n"), document, F.lit("\n"))

    def _action(self, name: str, id_: Column | None, versioned: bool = False) -> Column:
        options = self._options
        parts = [F.lit(f'{{"{name}":{{"_index":'), quoted(self.index)]
        if id_ is not None:
            parts += [F.lit(',"_id":'), quoted(id_)]
        if versioned:
            parts += [F.lit(',"version":'), self._version().cast("string"), F.lit(',"version_type":"external"')]
        if name == "update":
            parts.append(F.lit(f',"retry_on_conflict":{min(options.in_flight, 3)}'))
        if options.routing != "none" and name != "delete":
            parts += [F.lit(',"routing":'), quoted(self._routing())]
        elif options.routing == "key":
            parts += [F.lit(',"routing":'), quoted(self._key)]
        return F.concat(*parts, F.lit("}}"))

    def _version(self) -> Column:
        name = self._options.version_header
        if not name:
            return F.col("_offset")
        of_name = F.filter(F.col("headers"), lambda header: header["key"] == name)
        number = F.trim(F.try_element_at(of_name, F.lit(-1))["value"].cast("string")).try_cast("bigint")
        return F.when(number >= 0, number)

    def _routing(self) -> Column:
        if self._options.routing == "key":
            return self._key
        path = self._options.routing_path
        return self._records.of_values(lambda value, schema: field_text(value, schema, path))

    def _document(self) -> Column:
        options = self._options
        mapped = MappedWriter(replace_nulls=True, numeric=False, compacts_maps=options.compacts_maps)

        def made(value: Column, schema: Schema | None) -> Column:
            text = document(value, schema, AS_JSON if options.schema_ignored else mapped)
            if options.topics_without_schema and not options.schema_ignored:
                is_plain = _is_in(F.col("topic"), options.topics_without_schema)
                text = F.when(is_plain, document(value, schema, AS_JSON)).otherwise(text)
            return self._timed(text, value, schema)

        return self._records.of_values(made)

    def _timed(self, text: Column, value: Column, schema: Schema | None) -> Column:
        if not self._options.is_stream:
            return text
        fields = self._options.timestamp_fields
        if self._options.flavour is Flavour.AIVEN_OPENSEARCH:
            return with_time(text, value, schema, (), F.col("timestamp")) if fields == ("@timestamp",) else text
        return with_time(text, value, schema, fields, F.col("timestamp"))


def _key_text(key: Column, schema: Schema | None) -> Column:
    """The key as an id; null if it is neither a text nor an integer."""
    if schema is None:
        json_ = F.trim(key)
        text = F.get_json_object(json_, "$")
        return F.when(json_.startswith('"'), text).when(json_.rlike(_INTEGER), json_)
    if logical(schema) is None and (schema.type is SchemaType.STRING or schema.type in INTEGER_BITS):
        return key.cast("string")
    return F.lit(None).cast("string")


def _is_in(topic: Column, topics: Sequence[str] | frozenset[str]) -> Column:
    return topic.isin(*sorted(topics)) if topics else F.lit(False)
