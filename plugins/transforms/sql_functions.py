"""Functions and options that a SELECT over records may use; all others are refused.

Spark's functions read files, make requests and call Java: `from_avro` fetches the schema named by its option
`avroSchemaUrl`, `from_xml` validates by `rowValidationXSDPath`, `xpath` fetches the DTD that a record names,
`from_protobuf` reads a descriptor, `reflect` calls any method. Permission to create a connector must not give access to
what the worker's account can read.

Decided: lists of names, checked against Spark's registries by a test, because a rule over Spark's classes would admit
whatever a new version adds; loses: a function of a newer Spark is refused until it is listed here.

Decided: only options written as literals in `map('name', 'value', …)` are accepted, because only these can be checked
before Spark evaluates them; loses: computed options, and options given by `options =>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from headrace.plugins.interop.catalyst.spark_internals import each, functions_known


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALLOWED: Final = _names("""
! % & * + - / < << <= <=> = == > >= >> >>> ^ abs acos acosh add_months aes_decrypt aes_encrypt aggregate and
approx_top_k_estimate array array_append array_compact array_contains array_distinct array_except array_insert
array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat array_size
array_sort array_union arrays_overlap arrays_zip ascii asin asinh assert_true atan atan2 atanh base64 between bigint
bin binary bit_count bit_get bit_length bitmap_bit_position bitmap_bucket_number bitmap_count boolean bround btrim
cardinality cast cbrt ceil ceiling char char_length character_length chr coalesce collate collation concat concat_ws
contains conv convert_timezone cos cosh cot crc32 csc date date_add date_diff date_format date_from_unix_date
date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear decimal decode
degrees div double e element_at elt encode endswith equal_null exists exp expm1 extract factorial filter find_in_set
flatten float floor forall format_number format_string from_avro from_base32 from_csv from_json from_unixtime
from_utc_timestamp from_xml get get_json_object getbit greatest hash hex hll_sketch_estimate hll_union hmac hour hypot
if ifnull ilike in initcap instr int is_valid_utf8 is_valid_variant is_variant_null isnan isnotnull isnull
jaro_winkler_similarity json_array_length json_object_keys kll_sketch_get_n_bigint kll_sketch_get_n_double
kll_sketch_get_n_float kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double kll_sketch_get_quantile_float
kll_sketch_get_rank_bigint kll_sketch_get_rank_double kll_sketch_get_rank_float kll_sketch_merge_bigint
kll_sketch_merge_double kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double
kll_sketch_to_string_float last_day lcase least left len length levenshtein like ln locate log log10 log1p log2 lower
lpad ltrim luhn_check make_date make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz
make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries map_filter
map_from_arrays map_from_entries map_keys map_values map_zip_with mask md5 minute mod month monthname months_between
named_struct nanvl negative next_day not nullif nullifzero nvl nvl2 octet_length or overlay parse_json parse_url pi
pmod position positive pow power printf quarter quote radians raise_error reduce regexp regexp_count regexp_extract
regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse right rint rlike round
rpad rtrim schema_of_avro schema_of_csv schema_of_json schema_of_variant schema_of_xml sec second sentences sequence
sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin sinh size slice smallint sort_array soundex
space split split_part sqrt st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid startswith str_to_map string
struct substr substring substring_index tan tanh theta_difference theta_intersection theta_sketch_estimate theta_union
time time_bucket time_diff time_from_micros time_from_millis time_from_seconds time_to_micros time_to_millis
time_to_seconds time_trunc timestamp timestamp_micros timestamp_millis timestamp_nanos timestamp_seconds tinyint
to_avro to_base32 to_binary to_char to_csv to_date to_json to_number to_time to_timestamp to_timestamp_ltz
to_timestamp_ntz to_unix_timestamp to_utc_timestamp to_varchar to_variant_object to_xml transform transform_keys
transform_values translate trim trunc try_add try_aes_decrypt try_divide try_element_at try_make_interval
try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply try_parse_json try_parse_url
try_subtract try_to_binary try_to_date try_to_number try_to_time try_to_timestamp try_url_decode try_validate_utf8
try_variant_array_append try_variant_get try_variant_insert try_variant_set tuple_difference_double
tuple_difference_integer tuple_difference_theta_double tuple_difference_theta_integer tuple_intersection_double
tuple_intersection_integer tuple_intersection_theta_double tuple_intersection_theta_integer
tuple_sketch_estimate_double tuple_sketch_estimate_integer tuple_sketch_summary_double tuple_sketch_summary_integer
tuple_sketch_theta_double tuple_sketch_theta_integer tuple_union_double tuple_union_integer tuple_union_theta_double
tuple_union_theta_integer typeof ucase unbase64 unhex unix_date unix_micros unix_millis unix_nanos unix_seconds
unix_timestamp upper url_decode url_encode validate_utf8 variant_array_append variant_delete variant_get
variant_insert variant_set variant_strip_nulls vector_avg vector_cosine_similarity vector_inner_product
vector_l2_distance vector_norm vector_normalize vector_sum weekday weekofyear when width_bucket xxhash64 year
zeroifnull zip_with | ~
""")
"""Functions of one record that only use their arguments."""

AGGREGATES: Final = _names("""
any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate approx_top_k_combine
array_agg avg bit_and bit_or bit_xor bitmap_and_agg bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list
collect_set collect_union corr count count_if count_min_sketch covar_pop covar_samp every first first_value grouping
grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint kll_merge_agg_double
kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double kll_sketch_agg_float kurtosis last last_value listagg
max max_by mean measure median min min_by mode percentile percentile_approx percentile_cont percentile_disc regr_avgx
regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy schema_of_variant_agg skewness some
std stddev stddev_pop stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg theta_union_agg try_avg
try_sum tuple_intersection_agg_double tuple_intersection_agg_integer tuple_sketch_agg_double tuple_sketch_agg_integer
tuple_union_agg_double tuple_union_agg_integer var_pop var_samp variance
""")
"""Functions of several records."""

JUDGED_LATER: Final = AGGREGATES | _names("""
counter_diff cume_dist curdate current_date current_time current_timestamp current_timezone current_user dense_rank
explode explode_outer inline inline_outer json_tuple lag lead localtime localtimestamp monotonically_increasing_id now
nth_value ntile percent_rank posexplode posexplode_outer rand randn random randstr rank row_number session_user
session_window shuffle spark_partition_id stack uniform user uuid window window_time
""")
"""Functions that the analysed SELECT shows to need several records, or to differ with each attempt."""

REFUSED: Final = _names("""
current_catalog current_database current_path current_schema from_protobuf input_file_block_length
input_file_block_start input_file_name java_method reflect to_protobuf try_reflect version xpath xpath_boolean
xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short xpath_string
""")
"""Functions that reach files, servers or Java, or that return something about the worker and not the record."""


_NO_CALLS: Final = re.compile(
    r"""(?isx) (?<!\w)r'[^']*' | (?<!\w)r"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | `[^`]*`
    | --[^\n]* | /\*.*?\*/ | \bi?like\s+(?:all|any|some)\b"""
)
"""Texts, quoted names, comments, and words that are functions elsewhere."""
_CALL: Final = re.compile(r"\b(\w+)\s*\(")
_GROUPS: Final = re.compile(r"(?i)\bgroup\s+by\b")


def aggregate_in(sql: str) -> str | None:
    """Find an aggregate in a SELECT, without Spark; only Spark finds some, such as a window."""
    bare = _NO_CALLS.sub(" '' ", sql)
    called = (name for name in _CALL.findall(bare) if name.lower() in AGGREGATES)
    return next(called, "GROUP BY" if _GROUPS.search(bare) else None)


class FormatOptions(NamedTuple):
    """Options of one of Spark's formats."""

    allowed: frozenset[str]
    refused: frozenset[str] = frozenset()
    """Options that name a file or a server, or make several rows of one; used by the test over Spark's own list."""


JSON: Final = FormatOptions(
    _names("""
allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers allowNumericLeadingZeros allowSingleQuotes
allowUnquotedControlChars allowUnquotedFieldNames charset columnNameOfCorruptRecord compression dateFormat
dropFieldIfAllNull enableDateTimeParsingFallback encoding ignoreNullFields inferTimestamp lineSep locale mode
multiLine prefersDecimal pretty primitivesAsString samplingRatio singleVariantColumn sortKeys timeFormat
timestampFormat timestampNTZFormat timeZone useUnsafeRow writeNonAsciiCharacterAsCodePoint
"""),
    frozenset({"explodeEmbeddedArray"}),
)
CSV: Final = FormatOptions(
    _names("""
charset charToEscapeQuoteEscaping codec columnNameOfCorruptRecord columnPruning comment compression dateFormat
delimiter emptyValue enableDateTimeParsingFallback encoding enforceSchema escape escapeQuotes extension header
ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace inferSchema inputBufferSize lineSep locale maxCharsPerColumn
maxColumns mode multiLine nanValue negativeInf nullValue positiveInf preferDate quote quoteAll samplingRatio sep
singleVariantColumn timeFormat timestampFormat timestampNTZFormat timeZone unescapedQuoteHandling
""")
)
XML: Final = FormatOptions(
    _names("""
arrayElementName attributePrefix charset columnNameOfCorruptRecord compression dateFormat declaration encoding
excludeAttribute ignoreNamespace ignoreSurroundingSpaces indent inferSchema locale mode multiLine nullValue
preferDate prefersDecimal rootTag rowTag samplingRatio singleVariantColumn timeFormat timestampFormat
timestampNTZFormat timeZone useLegacyXMLParser validateName valueTag wildcardColName
"""),
    frozenset({"rowValidationXSDPath"}),
)
AVRO: Final = FormatOptions(
    _names("""
avroSchema compression datetimeRebaseMode enableStableIdentifiersForUnionType ignoreExtension mode
positionalFieldMatching recordName recordNamespace recursiveFieldMaxDepth stableIdentifierPrefixForUnionType
"""),
    frozenset({"avroSchemaUrl"}),
)

OPTIONS: Final[Mapping[str, tuple[FormatOptions, int]]] = {
    "from_json": (JSON, 2),
    "to_json": (JSON, 1),
    "schema_of_json": (JSON, 1),
    "from_csv": (CSV, 2),
    "to_csv": (CSV, 1),
    "schema_of_csv": (CSV, 1),
    "from_xml": (XML, 2),
    "to_xml": (XML, 1),
    "schema_of_xml": (XML, 1),
    "from_avro": (AVRO, 2),
    "schema_of_avro": (AVRO, 1),
}
"""Functions with options, the options that they accept, and the index of the argument."""


def refusals(expression: Any) -> Iterator[str]:
    """Yield why this expression of Spark's parser, or one within it, cannot be in a SELECT over records."""
    kind = expression.nodeName()
    if kind == "UnresolvedFunction":
        yield from _of_function(
            [str(part) for part in each(expression.nameParts())], list(each(expression.arguments()))
        )
    elif kind == "ExpressionWithUnresolvedIdentifier":
        yield "IDENTIFIER(…) hides what it names"
    elif kind == "UnresolvedStarExceptOrReplace" and expression.replacements().isDefined():
        yield "|> SET is not taken; use SELECT * EXCEPT (…), … AS …"
    for child in each(expression.children()):
        yield from refusals(child)


def _of_function(parts: Sequence[str], arguments: Sequence[Any]) -> Iterator[str]:
    name = parts[-1].lower()
    if not _is_own(parts):
        yield f"{'.'.join(parts)} is not one of Spark's own functions"
    elif name in REFUSED:
        yield f"the function {name} reaches beyond the record, and is not allowed"
    elif name not in ALLOWED | JUDGED_LATER:
        yield f"{name} is not one of the functions of Spark that are allowed (docs/transforms.md#sql)"
    elif name in OPTIONS:
        yield from _of_options(name, arguments)


def _is_own(parts: Sequence[str]) -> bool:
    """True if it is the name of one of Spark's own functions, qualified or not."""
    return [part.lower() for part in parts[:-1]] in ([], ["builtin"], ["system", "builtin"])


def _of_options(name: str, arguments: Sequence[Any]) -> Iterator[str]:
    options, at = OPTIONS[name]
    if any(argument.nodeName() == "NamedArgumentExpression" for argument in arguments):
        yield f"{name} takes its arguments in their order only"
    known = {option.lower() for option in options.allowed}
    for argument in arguments[at:]:
        given = _written_out(argument)
        if given is None:
            yield f"the options of {name} have to be written out, as map('name', 'value')"
        for option in given or ():
            if option.lower() not in known:
                yield f"the option {option} of {name} is not allowed"


def _written_out(argument: Any) -> Sequence[str] | None:
    """Return the names of literal options; None if they are not literals."""
    if argument.nodeName() != "UnresolvedFunction":
        return None
    parts = [str(part) for part in each(argument.nameParts())]
    if parts[-1].lower() != "map" or not _is_own(parts):
        return None
    texts = list(each(argument.arguments()))
    if any(one.nodeName() != "Literal" or one.dataType().typeName() != "string" for one in texts):
        return None
    return [str(one.value().toString()) for one in texts[::2]]


def drop_others(session: SparkSession) -> None:
    """Remove all functions that are not allowed from this session, however a SELECT may name them."""
    registry = functions_known(session)
    identifiers = registry.listFunction()
    for index, name in enumerate(identifiers.mkString("\n").splitlines()):
        if name.rpartition(".")[2] not in ALLOWED | JUDGED_LATER:
            registry.dropFunction(identifiers.apply(index))
