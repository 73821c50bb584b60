"""Apache's own transforms and predicates in the Spark driver's JVM, and ours beside them, over the same Kafka records.

A record's bytes go through the converters' reading, the chain and the converters' writing on both sides:

    def test_something(chains: Chains) -> None:
        chains.alike([Link("ExtractField$Value", {"field": "a"})], [Record(b'{"a":1}')], value=SCHEMALESS)

Documents are compared byte for byte, but for the order of members that Java's HashMap decides: schemaless objects, and
payloads of schemas that have maps.

Ours run over a local relation, whose projections Spark's optimizer evaluates itself: no job, and no code generated for
each chain, which would take seconds. `here=True` runs them inline, compiled, as a worker does: once per transform.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.plugins.contracts import Converter
from headrace.plugins.interop.conversion.decode import ConverterBinding, header_values, to_records, with_headers_read
from headrace.plugins.interop.conversion.encode import to_bytes
from headrace.plugins.interop.discovery import Plugins
from headrace.worker.engine.driver import Spark
from headrace.worker.engine.inline import ProjectionPool
from headrace.worker.pipeline.transforms import Transforms
from tests.compat.json_meaning import meaning as json_meaning
from tests.spark.converting import KAFKA_ROW

_JAVA: Final = (Path(__file__).parent / "TransformOracle.java").read_text()
_PACKAGE: Final = "org.apache.kafka.connect.transforms."
_BEFORE_PAYLOAD: Final = re.compile(rb'(?s)\{"schema":.*?,"payload":')
_UNKNOWN: Final = ("unknown_key", "unknown_value")
Build = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Converting:
    """A converter of keys, values or headers, with its settings."""

    class_name: str = "org.apache.kafka.connect.json.JsonConverter"
    settings: Mapping[str, str] = field(default_factory=dict)


JSON: Final = Converting()
SCHEMALESS: Final = Converting(settings={"schemas.enable": "false"})
TEXT: Final = Converting("org.apache.kafka.connect.storage.StringConverter")
SIMPLE: Final = Converting("org.apache.kafka.connect.storage.SimpleHeaderConverter")


@dataclass(frozen=True)
class Link:
    """A transform of a chain; class names need no package."""

    class_name: str
    settings: Mapping[str, str] = field(default_factory=dict)
    predicate: tuple[str, Mapping[str, str]] | None = None
    """Its class (`predicates.RecordIsTombstone`) and its settings."""
    negate: bool = False


class Record(NamedTuple):
    """A record in Kafka's bytes, before the chain or after it."""

    value: bytes | None = None
    key: bytes | None = None
    topic: str = "t"
    partition: int | None = 0
    timestamp: int | None = 1_700_000_000_123
    headers: tuple[tuple[str, bytes | None], ...] = ()


Answer = Record | str
"""The record that was made; else `dropped`, `error:CLASS:message`, or `crash:CLASS:Java's exception` (Apache only)."""


@dataclass(frozen=True)
class Chain:
    """The converters and transforms of a connector's config."""

    links: tuple[Link, ...]
    key: Converting = JSON
    value: Converting = JSON
    header: Converting = SIMPLE
    source: bool = False
    """True if the records are a source's, which have no offset."""

    def config(self) -> dict[str, str]:
        """The connector's `transforms…` and `predicates…`."""
        config: dict[str, str] = {}
        names = [f"x{number}" for number in range(len(self.links))]
        for name, link in zip(names, self.links, strict=True):
            of = f"transforms.{name}."
            config |= {f"{of}type": full_name(link.class_name)} | {of + key: v for key, v in link.settings.items()}
            if link.predicate is not None:
                class_name, settings = link.predicate
                config |= {f"{of}predicate": name, f"{of}negate": str(link.negate).lower()}
                config[f"predicates.{name}.type"] = full_name(class_name)
                config |= {f"predicates.{name}.{key}": v for key, v in settings.items()}
        predicates = [name for name, link in zip(names, self.links, strict=True) if link.predicate is not None]
        return config | {"transforms": ",".join(names), "predicates": ",".join(predicates)}


def full_name(class_name: str) -> str:
    """With Apache's package, unless it has one of its own."""
    return class_name if class_name.startswith(("org.", "com.", "io.", "headrace.")) else _PACKAGE + class_name


class Chains:
    """Runs chains on both sides; made once per session."""

    def __init__(self, engine: Spark, pool: ProjectionPool, jars: Sequence[Path]) -> None:
        self._spark = engine.session()
        self._pool = pool
        self._plugins = Plugins.discover()
        self._java = _compiled(engine, jars)

    def alike(
        self,
        links: Sequence[Link],
        records: Sequence[Record],
        *,
        here: bool = False,
        known: Callable[[Answer, Answer], bool] = lambda apache, ours: False,
        **options: Any,
    ) -> list[Answer]:
        """Both sides make the same of these records, but for what is `known`, and what Apache makes of them.

        `options` are fields of `Chain`.
        """
        chain = Chain(tuple(links), **options)
        apache = self.apache(chain, records)
        both = zip(records, apache, self.ours(chain, records, here=here), strict=True)
        other = [row for row in both if meaning(row[1]) != meaning(row[2]) and not known(*row[1:])]
        assert not other, "\n".join(f"\n{given}\n  Apache {wanted}\n  ours   {got}" for given, wanted, got in other)
        return apache

    def apache(self, chain: Chain, records: Sequence[Record]) -> list[Answer]:
        """Return what Apache makes of the records. Errors: Py4JJavaError if it refuses the settings."""
        asked = {name: {"class": c.class_name, "settings": c.settings} for name, c in _converters(chain).items()}
        links = [
            asdict(link)
            | {"class": full_name(link.class_name)}
            | {"predicate": link.predicate and {"class": full_name(link.predicate[0]), "settings": link.predicate[1]}}
            for link in chain.links
        ]
        rows = [{**one._asdict(), **_binary(one, _base64)} for one in records]
        request = {**asked, "links": links, "source": chain.source, "records": rows}
        answers = json.loads(self._java.run(json.dumps(request)))
        return [one if isinstance(one, str) else _record(one, base64.b64decode) for one in answers]

    def refused(self, link: Link) -> str | None:
        """The reason that Apache refuses a transform's settings; None if it takes them."""
        from py4j.protocol import Py4JJavaError

        try:
            self.apache(Chain((link,)), [])
        except Py4JJavaError as error:
            return str(error.java_exception.getMessage())
        return None

    def declared(self, class_name: str) -> list[dict[str, Any]]:
        """The settings that a transform's jar declares, in its order, as `Setting.key_info` but for the texts."""
        rows: list[dict[str, Any]] = json.loads(self._java.declared(full_name(class_name)))
        return rows

    def ours(self, chain: Chain, records: Sequence[Record], *, here: bool = False) -> list[Answer]:
        """Return what Headrace makes of the records. Errors: ConfigError if it refuses the settings."""
        made = {name: self._plugin(name, one) for name, one in _converters(chain).items()}
        header = made["header"]
        transforms = Transforms.of(chain.config(), self._plugins, header.encode)
        if not chain.source:
            read = partial(with_headers_read, converter=header, class_name=chain.header.class_name)
            transforms = replace(transforms, headers_read=read, header_values=header_values(header))
        sides = [
            ConverterBinding(made[name], getattr(chain, name).class_name).learned(_usual(made[name], name, records))
            for name in ("key", "value")
        ]
        schema = StructType([one for one in KAFKA_ROW.fields if not (chain.source and one.name == "offset")])
        rows = [_row(number, record) for number, record in enumerate(records)]
        batch = pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(schema))
        for _ in range(5):
            answer = self._run(batch, schema, _built(transforms, *sides), here)
            met = [{(row[mark], row["topic"]) for row in answer if row[mark] is not None} for mark in _UNKNOWN]
            if not any(met):
                return [_answer(row) for row in answer]
            sides = [side.learned(sorted(wanted)) for side, wanted in zip(sides, met, strict=True)]
        raise AssertionError(f"still unknown: {met}")

    def _run(self, batch: pa.RecordBatch, schema: StructType, build: Build, here: bool) -> list[dict[str, Any]]:
        if here:
            answer: list[dict[str, Any]] = self._pool.compile(schema, build).run(batch).to_pylist()
            return answer
        frame = build(self._spark.createDataFrame(pa.Table.from_batches([batch]), schema))
        return [row.asDict(recursive=True) for row in frame.collect()]

    def _plugin(self, name: str, converting: Converting) -> Any:
        kind = "header_converter" if name == "header" else "converter"
        made = self._plugins.find(kind, converting.class_name).load()()
        made.configure({"converter.type": name, **converting.settings}, name == "key")
        return made


@contextmanager
def chains(engine: Spark, jars: Sequence[Path]) -> Iterator[Chains]:
    """`Chains` on this session."""
    pool = ProjectionPool(engine, lanes=1)
    try:
        yield Chains(engine, pool, jars)
    finally:
        pool.stop()


def meaning(answer: Answer) -> Any:
    """The answer, with members in one order where no schema gives them theirs."""
    if isinstance(answer, str):
        return answer
    headers = tuple((name, _header_meaning(value)) for name, value in answer.headers)
    return headers, *answer._replace(value=json_meaning(answer.value), key=json_meaning(answer.key), headers=())


def _header_meaning(text: bytes | None) -> Any:
    found = json_meaning(text)
    # `Values` prints maps as objects whose names have no quotes.
    return sorted(text[1:-1].split(b",")) if found == text and text and text.startswith(b"{") else found


def _compiled(engine: Spark, jars: Sequence[Path]) -> Any:
    """Apache's side: a class loader of its own, and a few lines of Java in it."""
    spark = engine.session()
    jvm: Any = spark._jvm
    gateway: Any = spark.sparkContext._gateway
    urls = gateway.new_array(jvm.java.net.URL, len(jars))
    for number, jar in enumerate(jars):
        urls[number] = jvm.java.io.File(str(jar)).toURI().toURL()
    loader = jvm.java.net.URLClassLoader(urls, jvm.java.lang.ClassLoader.getPlatformClassLoader())
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    # py4j remembers methods by the class's name, so that each class must have one of its own.
    name = f"TransformOracle{uuid.uuid4().hex}"
    compiler.cook(_JAVA.replace("TransformOracle", name))
    made = compiler.getClassLoader().loadClass(name)
    nothing = gateway.new_array(jvm.java.lang.Class, 0), gateway.new_array(jvm.java.lang.Object, 0)
    return made.getDeclaredConstructor(nothing[0]).newInstance(nothing[1])


def _converters(chain: Chain) -> dict[str, Converting]:
    return {
        name: replace(one, settings={"converter.type": name, **one.settings})
        for name, one in (("key", chain.key), ("value", chain.value), ("header", chain.header))
    }


def _built(transforms: Transforms, key: ConverterBinding, value: ConverterBinding) -> Build:
    def build(rows: DataFrame) -> DataFrame:
        return to_bytes(transforms.apply(transforms.headers_read(to_records(rows, key, value))), key, value)

    return build


def _usual(converter: Converter, side: str, records: Sequence[Record]) -> list[tuple[bytes, str]]:
    """The identities that documents of the usual form have: knowing them spares a round."""
    if converter.constant_identity is not None:
        return [(converter.constant_identity, "t")]
    found = (_BEFORE_PAYLOAD.match(getattr(one, side) or b"") for one in records)
    return [(identity, "t") for identity in sorted({one[0] for one in found if one and _is_envelope(one[0])})]


def _is_envelope(before: bytes) -> bool:
    try:
        return list(json.loads(before + b"null}")) == ["schema", "payload"]
    except ValueError:
        return False


def _row(number: int, record: Record) -> dict[str, Any]:
    headers = [{"key": key, "value": value} for key, value in record.headers] or None
    return {**record._asdict(), "headers": headers, "offset": number}


def _answer(row: Mapping[str, Any]) -> Answer:
    if row["error"] is not None:
        return f"error:{row['error']['class']}:{row['error']['message']}"
    if row["drop"]:
        return "dropped"
    return _record({**row, "headers": [(one["key"], one["value"]) for one in row["headers"] or ()]}, bytes)


def _record(row: Mapping[str, Any], read: Any) -> Record:
    def data(value: Any) -> bytes | None:
        return None if value is None else read(value)

    headers = tuple((key, data(value)) for key, value in row["headers"])
    return Record(data(row["value"]), data(row["key"]), row["topic"], row["partition"], row["timestamp"], headers)


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _binary(record: Record, write: Any) -> dict[str, Any]:
    headers = [(key, write(value)) for key, value in record.headers]
    return {"key": write(record.key), "value": write(record.value), "headers": headers}
