"""Values without a schema: JSON texts as structs, by Arrow's parser.

The types of known columns are given to the parser; those of other fields are inferred over the rows of a batch. If rows
do not fit, all types but those of decimals and floats are inferred and then converted as other values are (`conform`),
and if this fails, too, the rows to blame are found by halving.

| JSON | type of a field without a column |
|---|---|
| whole number, other number | long, double |
| text, also of a date | string |
| `true`, array, object | boolean, list, struct |
| null, empty array or object | none: it is left out until it has a value |

A whole number beyond 64 bits is refused, and so is an object that names a field twice. Fields are inferred for some
rows at once, and up to a count: objects whose names are values, such as ids, would make a column of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from headrace.connectors.lake.iceberg.files.json_text import CheckedTexts, count_names

_NO_FIELDS: Final = pa.struct([])
_INEXACT: Final = 2**53
"""From here on doubles do not hold all whole numbers."""
_MOST_FIELDS: Final = 5_000
"""The most fields of a table that is to learn fields of JSON."""
_MOST_MEMBERS: Final = 50_000
_MOST_INFERRED: Final = 256
"""The most members, and texts, whose fields are inferred at once: each field takes memory in all of them."""


@dataclass
class JsonRows:
    """Structs, with their indexes among the texts."""

    structs: list[tuple[np.ndarray, pa.Array]] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)
    joined: pa.DataType = _NO_FIELDS
    """The fields of all structs."""

    @property
    def fields(self) -> pa.StructType:
        """All fields that have values anywhere, with their types."""
        return _with_values(self.joined) or _NO_FIELDS


def has_more(fields: pa.DataType, columns: pa.DataType, ignore_case: bool = False) -> bool:
    """Return True if values of one type have fields that another one lacks."""
    if pa.types.is_struct(fields) and pa.types.is_struct(columns):
        known = {one.name.lower() if ignore_case else one.name: one.type for one in columns}
        found = ((one.name.lower() if ignore_case else one.name, one.type) for one in fields)
        return any(name not in known or has_more(kind, known[name], ignore_case) for name, kind in found)
    if pa.types.is_list(fields) and pa.types.is_list(columns):
        return has_more(fields.value_type, columns.value_type, ignore_case)
    return False


def read_json(texts: pa.Array, columns: pa.Schema | None, infer: bool, ignore_case: bool = False) -> JsonRows:
    """Return the texts, none of them null, as structs; with `infer` also fields that are no columns."""
    made = JsonRows()
    reading = _Reading(pa.struct([]) if columns is None else pa.struct(list(columns)), infer, ignore_case, made)
    checked = CheckedTexts.of(texts)
    made.refused.update(checked.refused)
    places = np.setdiff1d(np.arange(len(texts)), np.fromiter(checked.refused, np.int64))
    if len(places):
        some = texts if len(places) == len(texts) else texts.take(pa.array(places))
        step = _MOST_INFERRED if infer or ignore_case else len(places)
        for begin in range(0, len(places), step):
            reading.read(some.slice(begin, step), places[begin : begin + step], checked)
    return made


@dataclass(frozen=True)
class _Reading:
    columns: pa.StructType
    infer: bool
    ignore_case: bool
    made: JsonRows

    def read(self, texts: pa.Array, places: np.ndarray, checked: CheckedTexts) -> None:
        """Read texts, with their places among all."""
        why = ""
        for attempt in (self._strictly, self._loosely, self._alone):
            try:
                self._take(attempt(texts, places, checked), places)
                return
            except pa.ArrowInvalid as error:
                why = str(error).partition("\n")[0].removesuffix(" in row 0")
        if len(texts) == 1:
            self.made.refused[int(places[0])] = f"The value does not fit the table: {why}"
            return
        half = len(texts) // 2
        self.read(texts.slice(0, half), places[:half], checked)
        self.read(texts.slice(half), places[half:], checked)

    def _take(self, structs: pa.Array, places: np.ndarray) -> None:
        if self.infer:
            joined = _joined(self.made.joined, structs.type)
            if (count := _count(joined)) > max(_MOST_FIELDS, _count(self.columns)):
                raise pa.ArrowInvalid(f"its table would have {count:,} fields, more than {_MOST_FIELDS:,}")
            self.made.joined = joined
        self.made.structs.append((places, structs))

    def _strictly(self, texts: pa.Array, places: np.ndarray, checked: CheckedTexts) -> pa.Array:
        if self.infer or self.ignore_case:
            _check_size(texts, checked.members[places])
        wanted = self._spelled(texts, _parser_type(self.columns, False))
        made = _parsed(texts, wanted, self.infer)
        if self.infer and checked.long_wholes[places].any() and _has_large(made, wanted):
            raise pa.ArrowInvalid("a whole number of many digits stands beside fractions, or has over 64 bits")
        return made

    def _alone(self, texts: pa.Array, places: np.ndarray, checked: CheckedTexts) -> pa.Array:
        """One text, all of whose types but decimals are inferred: the double for 0.1 is no float, but 0.1 is one."""
        if len(texts) > 1:
            raise pa.ArrowInvalid("it is read with others")
        return self._loosely(texts, places, checked, False)

    def _loosely(
        self, texts: pa.Array, places: np.ndarray, checked: CheckedTexts, keeps_floats: bool = True
    ) -> pa.Array:
        _check_size(texts, checked.members[places])
        if checked.long_numbers[places].any():
            raise pa.ArrowInvalid("a number has more digits than its column's type")
        return _parsed(texts, self._spelled(texts, _parser_type(self.columns, True, keeps_floats)), True)

    def _spelled(self, texts: pa.Array, wanted: pa.StructType) -> pa.StructType:
        """The fields in the texts' spelling, if case does not matter."""
        if not self.ignore_case:
            return wanted
        return _respelled(wanted, _parsed(texts, _NO_FIELDS, True).type)


def _check_size(texts: pa.Array, members: np.ndarray) -> None:
    """Refuse texts whose fields would take too much memory if they were inferred together."""
    if len(texts) > _MOST_INFERRED or members.sum() > _MOST_MEMBERS:
        raise pa.ArrowInvalid(f"it has more than {_MOST_MEMBERS:,} members")
    if members.sum() > _MOST_FIELDS and count_names(texts) > _MOST_FIELDS:
        raise pa.ArrowInvalid(f"it has more than {_MOST_FIELDS:,} fields")


def _count(kind: pa.DataType) -> int:
    """The count of a type's fields, those of inner types included."""
    if pa.types.is_struct(kind):
        return sum(1 + _count(one.type) for one in kind)
    return _count(kind.value_type) if pa.types.is_list(kind) else 0


def _respelled(wanted: pa.DataType, found: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(wanted) and pa.types.is_struct(found):
        by_name: dict[str, pa.Field] = {}
        for one in found:
            if by_name.setdefault(one.name.lower(), one) is not one:
                raise pa.ArrowInvalid(f"the field {one.name} is there in several spellings")
        fields = []
        for one in wanted:
            other = by_name.get(one.name.lower())
            fields.append(one if other is None else pa.field(other.name, _respelled(one.type, other.type)))
        return pa.struct(fields)
    if pa.types.is_list(wanted) and pa.types.is_list(found):
        return pa.list_(_respelled(wanted.value_type, found.value_type))
    return wanted


def _parser_type(kind: pa.DataType, loose: bool, keeps_floats: bool = False) -> pa.DataType:
    """The type that the parser gets for values of a column; loose: only where it must not guess."""
    if pa.types.is_struct(kind):
        fields = [pa.field(one.name, _parser_type(one.type, loose, keeps_floats)) for one in kind]
        return pa.struct([one for one in fields if not pa.types.is_null(one.type)])
    if pa.types.is_list(kind):
        inner = _parser_type(kind.value_type, loose, keeps_floats)
        return inner if pa.types.is_null(inner) else pa.list_(inner)
    if pa.types.is_map(kind):
        return _NO_FIELDS  # refused by `conform`, not passed over
    if pa.types.is_decimal(kind) or (keeps_floats and pa.types.is_float32(kind)):
        return kind
    if loose:
        return pa.null()
    is_plain = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return kind if is_plain else pa.string()


def _parsed(texts: pa.Array, wanted: pa.StructType, infer: bool) -> pa.Array:
    """The texts as structs of these fields, and of others if they are to be inferred."""
    made = _parsed_once(texts, wanted, infer)
    inferred = _dates_as_text(made.type)
    made = made if inferred.equals(made.type) else _parsed_once(texts, inferred, infer)
    if _has_infinite(made):
        raise pa.ArrowInvalid("a number is too large for its column")
    return made


def _parsed_once(texts: pa.Array, wanted: pa.StructType, infer: bool) -> pa.Array:
    data = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), "\n")[0].as_buffer()
    options = pj.ParseOptions(
        explicit_schema=pa.schema(list(wanted)),
        newlines_in_values=True,
        unexpected_field_behavior="infer" if infer else "ignore",
    )
    read = pj.ReadOptions(use_threads=False, block_size=data.size + 1)
    table = pj.read_json(pa.BufferReader(data), read_options=read, parse_options=options)
    if table.num_rows != len(texts):
        raise pa.ArrowInvalid("a text is not one JSON object")
    if not table.num_columns:
        return pa.Array.from_buffers(_NO_FIELDS, len(texts), [None], 0)
    columns = [column.combine_chunks() for column in table.columns]
    return pa.StructArray.from_arrays(columns, fields=list(table.schema))


def _dates_as_text(kind: pa.DataType) -> pa.DataType:
    """The type with text where the parser found timestamps; it is given none itself."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _dates_as_text(one.type)) for one in kind])
    if pa.types.is_list(kind):
        return pa.list_(_dates_as_text(kind.value_type))
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _has_infinite(made: pa.Array) -> bool:
    """Return True if a float is infinite: the parser makes that of numbers beyond its bounds."""
    if pa.types.is_struct(made.type):
        return any(_has_infinite(made.field(at)) for at in range(len(made.type)))
    if pa.types.is_list(made.type):
        return _has_infinite(made.flatten())
    return bool(pa.types.is_float32(made.type) and pc.any(pc.is_inf(made)).as_py())


def _has_large(made: pa.Array, wanted: pa.DataType | None) -> bool:
    """Return True if an inferred double may stand for a whole number that it does not hold exactly."""
    if pa.types.is_struct(made.type):
        known = {one.name: one.type for one in wanted} if wanted is not None and pa.types.is_struct(wanted) else {}
        return any(_has_large(made.field(at), known.get(one.name)) for at, one in enumerate(made.type))
    if pa.types.is_list(made.type):
        inner = wanted.value_type if wanted is not None and pa.types.is_list(wanted) else None
        return _has_large(made.flatten(), inner)
    if wanted is not None or not pa.types.is_floating(made.type):
        return False
    largest = pc.max(pc.abs(made)).as_py()
    return largest is not None and largest >= _INEXACT


def _joined(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """A type with the fields of both; of two types of a field the first that has values."""
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = {each.name: each.type for each in one}
        for each in other:
            known = fields.get(each.name)
            fields[each.name] = each.type if known is None else _joined(known, each.type)
        return pa.struct(list(fields.items()))
    if pa.types.is_list(one) and pa.types.is_list(other):
        return pa.list_(_joined(one.value_type, other.value_type))
    return other if pa.types.is_null(one) else one


def _with_values(kind: pa.DataType) -> pa.DataType | None:
    """The type without fields that are always null or empty; None: nothing is left."""
    if pa.types.is_struct(kind):
        fields = list(_fields_with_values(kind))
        return pa.struct(fields) if fields else None
    if pa.types.is_list(kind):
        inner = _with_values(kind.value_type)
        return None if inner is None else pa.list_(inner)
    return None if pa.types.is_null(kind) else kind


def _fields_with_values(kind: pa.StructType) -> Iterator[tuple[str, pa.DataType]]:
    for one in kind:
        if (inner := _with_values(one.type)) is not None:
            yield one.name, inner
