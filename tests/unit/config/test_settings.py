from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config.settings import (
    REQUIRED,
    ConfigError,
    Importance,
    Password,
    Problem,
    Setting,
    Settings,
    Type,
)
from headrace.config.validators import (
    ListOf,
    NonEmpty,
    NonEmptyWithoutControlChars,
    OneOf,
    OneOfIgnoringCase,
    OrNull,
    Range,
    Regex,
    UniqueAliases,
    Validator,
)
from headrace.config.values import as_text, looks_secret, read, shown


def errors(type_: Type, text: str | None, validator: Validator | None = None) -> list[str]:
    return Setting("x", type_, None, validator).judge({"x": text}).errors


# What Java's ConfigDef of 4.3.1 said to the same settings and values.
@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (Type.INT, " 5 ", 5),
        (Type.INT, "+7", 7),
        (Type.SHORT, "-3", -3),
        (Type.DOUBLE, "1e3", 1000.0),
        (Type.DOUBLE, "1.0d", 1.0),
        (Type.BOOLEAN, " TRUE ", True),
        (Type.LIST, " a , b,,c ", ["a", "b", "", "c"]),
        (Type.LIST, "", []),
        (Type.STRING, "  q ", "q"),
        (Type.STRING, "\u00a0q", "\u00a0q"),
        (Type.PASSWORD, " sec ret ", Password(" sec ret ")),
        (Type.CLASS, " a.B ", "a.B"),
    ],
)
def test_text_is_read_as_java_reads_it(type_: Type, text: str, value: object) -> None:
    assert read("x", type_, text) == value


@pytest.mark.parametrize(
    ("type_", "text", "message"),
    [
        (Type.INT, "x", "Invalid value x for configuration x: Not a number of type INT"),
        (Type.INT, "", "Invalid value  for configuration x: Not a number of type INT"),
        (Type.INT, "2147483648", "Invalid value 2147483648 for configuration x: Not a number of type INT"),
        (Type.INT, "1_000", "Invalid value 1_000 for configuration x: Not a number of type INT"),
        (Type.SHORT, "70000", "Invalid value 70000 for configuration x: Not a number of type SHORT"),
        (Type.LONG, "1.0", "Invalid value 1.0 for configuration x: Not a number of type LONG"),
        (Type.LONG, "9" * 5000, f"Invalid value {'9' * 5000} for configuration x: Not a number of type LONG"),
        (Type.DOUBLE, "zz", "Invalid value zz for configuration x: Not a number of type DOUBLE"),
        (Type.BOOLEAN, "yes", "Invalid value yes for configuration x: Expected value to be either true or false"),
    ],
)
def test_what_cannot_be_read_is_refused_in_javas_words(type_: Type, text: str, message: str) -> None:
    assert errors(type_, text) == [message]


@pytest.mark.parametrize(
    ("validator", "type_", "text", "message"),
    [
        (Range(0, 9), Type.INT, "10", "Invalid value 10 for configuration x: Value must be no more than 9"),
        (Range(0, 9), Type.INT, "-1", "Invalid value -1 for configuration x: Value must be at least 0"),
        (Range(0, 9), Type.INT, None, "Invalid value null for configuration x: Value must be non-null"),
        (OrNull(Range(0)), Type.INT, None, None),
        (OneOf("a", "b"), Type.STRING, "c", "Invalid value c for configuration x: String must be one of: a, b"),
        (OneOf("a", "b"), Type.STRING, None, "Invalid value null for configuration x: String must be one of: a, b"),
        (OneOfIgnoringCase("a", "b"), Type.STRING, "A", None),
        (
            OneOfIgnoringCase("a", "b"),
            Type.STRING,
            "c",
            "Invalid value c for configuration x: String must be one of (case insensitive): A, B",
        ),
        (NonEmpty(), Type.STRING, "", "Invalid value  for configuration x: String must be non-empty"),
        (NonEmpty(), Type.STRING, None, None),
        (
            NonEmptyWithoutControlChars(),
            Type.STRING,
            "  ",
            "Invalid value  for configuration x: String may not be empty",
        ),
        (
            NonEmptyWithoutControlChars(),
            Type.STRING,
            "a\u0001\u007fb\n",
            "Invalid value a\u0001\u007fb for configuration x: String may not contain control sequences but had the "
            "following ASCII chars: 1, 127",
        ),
        (
            NonEmptyWithoutControlChars(),
            Type.STRING,
            "a\u2028b\u202e\u0085",
            "Invalid value a\u2028b\u202e\u0085 for configuration x: String may not contain control sequences but had "
            "the following ASCII chars: 8232, 8238, 133",
        ),
        (NonEmptyWithoutControlChars(), Type.STRING, "x" * 1000, None),
        (
            NonEmptyWithoutControlChars(),
            Type.STRING,
            "é" * 501,
            f"Invalid value {'é' * 80}… for configuration x: String may not be longer than 1000 bytes in UTF-8 but has "
            "1002",
        ),
        (
            NonEmptyWithoutControlChars(),
            Type.STRING,
            "\ud800",
            "Invalid value '\\ud800' for configuration x: String must be valid Unicode",
        ),
        (ListOf(), Type.LIST, "a,a", "Configuration 'x' values must not be duplicated."),
        (ListOf(), Type.LIST, "a, ,b", "Configuration 'x' values must not be empty."),
        (ListOf(), Type.LIST, " , ", "Configuration 'x' values must not be duplicated."),
        (ListOf(), Type.LIST, None, "Configuration 'x' values must not be null."),
        (
            ListOf(empty=False),
            Type.LIST,
            "",
            "Configuration 'x' must not be empty. Valid values include: any non-empty value",
        ),
        (
            ListOf(("a", "b"), empty=False),
            Type.LIST,
            "",
            "Configuration 'x' must not be empty. Valid values include: [a, b]",
        ),
        (ListOf(("a", "b")), Type.LIST, "a,c", "Invalid value c for configuration x: String must be one of: a, b"),
        (UniqueAliases(), Type.LIST, "a,a", "Invalid value [a, a] for configuration x: Duplicate alias provided."),
        (Regex(), Type.STRING, "a.*", None),
    ],
)
def test_validators_speak_as_java_does(
    validator: Validator, type_: Type, text: str | None, message: str | None
) -> None:
    assert errors(type_, text, validator) == ([] if message is None else [message])


def test_a_bad_regex_is_refused() -> None:
    assert errors(Type.STRING, "(", Regex())[0].startswith("Invalid value ( for configuration x: Invalid regex: ")


def test_the_validator_also_runs_on_the_null_that_an_unreadable_value_leaves() -> None:
    judged = Setting("n", Type.INT, 1, Range(1)).judge({"n": "x"})
    assert judged.value is None
    assert judged.errors == [
        "Invalid value x for configuration n: Not a number of type INT",
        "Invalid value null for configuration n: Value must be non-null",
    ]
    assert Setting("n", Type.INT, 1, Range(1)).judge({"n": "0"}).value == 0


def test_a_missing_setting_without_default_is_an_error_and_null() -> None:
    judged = Setting("n", Type.STRING).judge({})
    assert (judged.value, judged.errors) == (None, ['Missing required configuration "n" which has no default value.'])


def test_a_class_is_found_by_alias_or_refused() -> None:
    setting = Setting("c", Type.CLASS, None)
    known = {"Json": "org.JsonConverter"}
    assert setting.judge({"c": "Json"}, known.get).value == "org.JsonConverter"
    assert setting.judge({"c": "Jsn"}, known.get).errors == [
        "Invalid value Jsn for configuration c: Class Jsn could not be found."
    ]


SETTINGS = Settings(
    Setting("topic", Type.STRING, REQUIRED, NonEmpty(), Importance.HIGH, "Where records go."),
    Setting("batch.size", Type.INT, 2000, Range(1)),
    Setting("password", Type.PASSWORD, None),
    Setting("pin", Type.PASSWORD, "1234"),
)


def test_parse_gives_every_declared_setting_and_nothing_else() -> None:
    parsed = SETTINGS.parse({"topic": "t", "other": "x", "password": "p"})
    assert parsed == {"topic": "t", "batch.size": 2000, "password": Password("p"), "pin": Password("1234")}


def test_parse_tells_all_problems_at_once_each_with_key_value_and_remedy() -> None:
    with pytest.raises(ConfigError) as caught:
        SETTINGS.parse({"batch.size": "0", "password": "geheim"})
    assert [(p.key, p.value) for p in caught.value.problems] == [("topic", None), ("batch.size", "0")]
    text = str(caught.value)
    assert "topic (not set): Missing required configuration" in text
    assert "Set topic to a text that is not empty. Where records go." in text
    assert "batch.size (= '0')" in text
    assert "the default is '2000'" in text
    assert "geheim" not in text


def test_secrets_are_hidden_everywhere() -> None:
    password = Password("geheim")
    assert "geheim" not in f"{password} {password!r} {shown(password)} {as_text(password)}"
    masked = SETTINGS.mask({"topic": "t", "password": "p", "my.secret.key": "s", "pin": None, "plain": "x"})
    assert masked == {"topic": "t", "password": "[hidden]", "my.secret.key": "[hidden]", "pin": None, "plain": "x"}
    assert SETTINGS["pin"].key_info()["default_value"] == "[hidden]"
    assert "geheim" not in str(Problem("sasl.jaas.config", "geheim", "It cannot be read.", "Mend it."))


@pytest.mark.parametrize("name", ["ssl.keystore.password", "sasl.jaas.config", "aws.secret.access", "ssl.keystore.key"])
def test_secret_names_are_known(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["topic", "sasl.oauthbearer.token.endpoint.url", "key.converter"])
def test_other_names_are_not_taken_for_secrets(name: str) -> None:
    assert not looks_secret(name)


def test_adding_puts_the_right_one_in_the_left_ones_place() -> None:
    both = SETTINGS + Settings(Setting("topic", Type.LIST, []), Setting("new", Type.INT, 1))
    assert [setting.name for setting in both] == ["topic", "batch.size", "password", "pin", "new"]
    assert both["topic"].type is Type.LIST


def test_a_prefixed_setting_is_validated_under_its_own_name() -> None:
    prefixed = Settings(Setting("size", Type.INT, 1, Range(1))).prefixed("a.b.")
    assert prefixed.validate({"a.b.size": "0"})["a.b.size"].errors == [
        "Invalid value 0 for configuration size: Value must be at least 1"
    ]
    assert prefixed["a.b.size"].key_info()["display_name"] == "size"


def test_embedding_ranks_as_java_does() -> None:
    low, high = Importance.LOW, Importance.HIGH
    settings = Settings(
        Setting("b", Type.INT, 1, importance=low),
        Setting("c", Type.INT, 1, importance=high),
        Setting("a", Type.INT, 1, importance=high),
        Setting("z", Type.INT, importance=low),
        Setting("g", Type.INT, importance=high, group="G"),
    )
    embedded = settings.embedded("p.", "Transforms: p", 2)
    assert [(s.name, s.group, s.order) for s in embedded] == [
        ("p.z", "Transforms: p", 2),
        ("p.a", "Transforms: p", 3),
        ("p.c", "Transforms: p", 4),
        ("p.b", "Transforms: p", 5),
        ("p.g", "Transforms: p: G", 6),
    ]


@given(st.sampled_from(list(Type)), st.text())
def test_no_text_breaks_reading(type_: Type, text: str) -> None:
    judged = Setting("x", type_, None).judge({"x": text})
    assert judged.errors == [] or judged.value is None
    as_text(judged.value)


@given(st.integers(min_value=-(2**63), max_value=2**63 - 1))
def test_a_long_survives_being_written_and_read(number: int) -> None:
    assert read("x", Type.LONG, as_text(number)) == number
