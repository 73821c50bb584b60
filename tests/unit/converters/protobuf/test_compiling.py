"""Texts of a registry, compiled: what they may import, and what a hostile one gets."""

from __future__ import annotations

import base64
import errno
import importlib
from pathlib import Path

import pytest

from headrace.converters.apicurio import protobuf_reading as apicurio
from headrace.converters.protobuf import compiling
from headrace.converters.protobuf.compiling import bundle, compiled
from headrace.converters.protobuf.messages import all_messages, file_of, indexes_of, message_at, parameters
from headrace.converters.protobuf.settings import ProtobufOptions
from headrace.converters.protobuf.to_connect import connect_part
from headrace.plugins.contracts import DataError, RetriableError

HEAD = 'syntax = "proto3"; '


def test_well_known_files_and_references_are_found() -> None:
    imported = ("a/b.proto", "google/type/money.proto", "google/protobuf/any.proto")
    text = HEAD + "".join(f'import "{name}"; ' for name in imported) + "message M {}"
    other = HEAD + 'import "confluent/meta.proto"; message N { int32 x = 1 [(confluent.field_meta).doc = "d"]; }'
    names = [file.name for file in compiled(bundle(text, [("a/b.proto", other)])).file]
    assert names[-1] == compiling.MAIN
    assert {*imported, "confluent/meta.proto"} < set(names)


@pytest.mark.parametrize(
    "name", ["/etc/hosts", "../../../../../../etc/hosts", "//etc/hosts", "./x.proto", "a/../b.proto"]
)
def test_no_file_of_the_machine_is_read(name: str) -> None:
    with pytest.raises(DataError, match="cannot be compiled") as caught:
        compiled(f'{HEAD}import "{name}"; message M {{}}')
    assert "localhost" not in str(caught.value)


def test_a_descriptor_in_base64_is_a_schema_as_well() -> None:
    """Confluent's Python client registers such, and Apicurio gives them back as they came."""
    beside = HEAD + "package o; message N { int32 x = 1; }"
    imported = 'import "b.proto"; import "google/type/date.proto"; import "google/protobuf/any.proto"; '
    own = f"{HEAD}{imported}message M {{ o.N n = 1; google.type.Date d = 2; }}"
    both = (compiled(bundle(own, [("b.proto", beside)])), compiled(beside))
    one, two = (base64.b64encode(made.file[-1].SerializeToString()).decode() for made in both)
    file = file_of(bundle(one, [("b.proto", two)]))
    kinds = [field.message_type for field in message_at(file, [0]).fields]
    assert [kind and kind.full_name for kind in kinds] == ["o.N", "google.type.Date"]
    with pytest.raises(DataError, match="cannot be compiled"):
        compiled(one)


def test_no_file_beside_the_schema_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.proto").write_text(HEAD + "message Secret {}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"mine\.proto"):
        compiled(HEAD + 'import "mine.proto"; message M {}')


@pytest.mark.parametrize(
    "name",
    ["", "/tmp/x.proto", "../x.proto", "a/../../x.proto", "a//b.proto", "./a.proto", "a\x00b.proto", "a/" * 3000],
)
def test_a_reference_cannot_write_outside(name: str) -> None:
    with pytest.raises(DataError, match="may not be named so"):
        compiled(bundle(HEAD + "message M {}", [(name, HEAD)]))


def test_one_name_has_one_text() -> None:
    assert bundle("m", [("a", "1"), ("a", "1")])
    with pytest.raises(DataError, match="two different files for a"):
        bundle("m", [("a", "1"), ("a", "2")])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("hello", "Expected top-level statement"),
        ("{", "Expected top-level statement"),
        ('{"schema": "hello"}', "Expected top-level statement"),
        (HEAD + "message M { Gone g = 1; }", '"Gone" is not defined'),
        (HEAD + f'import "{compiling.MAIN}"; message M {{}}', "imports itself"),
        ('edition = "2023"; message M {}', "has an edition"),
        (HEAD + "message M {" * 5_000, "cannot be compiled"),
        (HEAD + "/" * (3 << 20), "larger than 2 MiB"),
        ("\x00\xff", "cannot be compiled"),
    ],
)
def test_a_bad_text_has_a_clear_error(text: str, told: str) -> None:
    with pytest.raises(DataError, match=told):
        compiled(text)


@pytest.mark.parametrize(
    ("child", "told"),
    [
        ("while True: pass", r"did not end within 0\.5 seconds"),
        ("import os; os.kill(os.getpid(), 9)", "was killed"),
        ("import absent_module", "does not run: .*absent_module"),
    ],
)
def test_a_compiler_that_the_machine_stops_is_no_fault_of_the_schema(
    monkeypatch: pytest.MonkeyPatch, child: str, told: str
) -> None:
    monkeypatch.setattr(compiling, "_CHILD", child)
    monkeypatch.setattr(compiling, "_LONGEST_S", 0.5 if "while" in child else 20)
    with pytest.raises(RetriableError, match=f"(?s){told}"):
        compiled(HEAD + f"message Stopped {{ /* {told} */ }}")


def test_a_bad_text_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEAD + "message Once { Gone g = 1; }"
    for _ in range(2):
        with pytest.raises(DataError, match="Gone"):
            compiled(text)
        monkeypatch.setattr(compiling, "_CHILD", "raise SystemExit(7)")


def test_a_full_disk_is_no_fault_of_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(RetriableError, match="No space left"):
        compiled(HEAD + "message Full {}")


@pytest.mark.parametrize(
    ("child", "told"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGXCPU)", "more than 10 seconds"),
        (
            f"{compiling.LIMITS}\ntry: sys.stderr.write('x' * (8 << 20))\nexcept OSError: sys.exit(3)",
            "cannot be compiled: xxx",
        ),
    ],
)
def test_a_text_that_needs_too_much_is_refused(monkeypatch: pytest.MonkeyPatch, child: str, told: str) -> None:
    monkeypatch.setattr(compiling, "_CHILD", child)
    with pytest.raises(DataError, match=told):
        compiled(HEAD + f"message TooMuch {{ /* {told} */ }}")


def test_messages_are_known_by_their_indexes() -> None:
    text = HEAD + "message Z { map<int32, int32> m = 1; message A { message B {} } } message A {}"
    file = file_of(text)
    assert [one.name for one in all_messages(file)] == ["Z", "A"]
    deep = message_at(file, [0, 1, 0])
    assert (deep.full_name, indexes_of(deep)) == ("Z.A.B", [0, 1, 0])
    for path in ([], [2], [0, 5], [-1]):
        with pytest.raises(DataError):
            message_at(file, path)


def test_options_of_fields_are_read() -> None:
    option = '[(confluent.field_meta) = {params: {key: "a" value: "b"}}]'
    text = f'{HEAD}import "confluent/meta.proto"; message M {{ int32 x = 1 {option}; int32 y = 2; }}'
    first, second = message_at(file_of(text), [0]).fields
    assert (parameters(first), parameters(second)) == ({"a": "b"}, {})


def test_another_option_with_the_number_of_confluents_has_no_params() -> None:
    importlib.import_module("confluent_kafka.schema_registry.confluent.meta_pb2")  # declares it in this process
    of = 'import "google/protobuf/descriptor.proto"; extend google.protobuf.FieldOptions { bytes mine = 1088; }'
    (field,) = message_at(file_of(HEAD + of + ' message M { int32 x = 1 [(mine) = "\\377\\377"]; }'), [0]).fields
    assert parameters(field) == {}


@pytest.mark.parametrize("scale", ["--5", "\u00b2", "", "5-", "1" * 12])
def test_a_scale_that_is_no_integer_is_refused(scale: str) -> None:
    option = f'[(confluent.field_meta) = {{params: {{key: "scale" value: "{scale}"}}}}]'
    imports = 'import "confluent/meta.proto"; import "confluent/type/decimal.proto";'
    message = message_at(file_of(f"{HEAD}{imports} message M {{ confluent.type.Decimal d = 1 {option}; }}"), [0])
    with pytest.raises(DataError, match="scale of a Protobuf field is"):
        connect_part(message, ProtobufOptions(), None)


def test_a_date_that_is_not_set_is_null_even_if_structs_are_generated() -> None:
    imports = 'import "google/type/date.proto"; import "google/type/timeofday.proto";'
    text = f"{HEAD}{imports} message M {{ google.type.Date d = 1; google.type.TimeOfDay t = 2; }}"
    shape = connect_part(message_at(file_of(text), [0]), ProtobufOptions(structs_for_nulls=True), None).shape
    assert [one["nullable"] for one in shape["members"]] == [True, False]


@pytest.mark.parametrize(
    "text",
    [
        "message M { N n = 1; } message N { oneof o { M m = 1; } }",
        "message M { map<string, M> m = 1; }",
        "message M { repeated NEntry n = 1; } message NEntry { string key = 1; repeated NEntry value = 2; }",
        "message M { N n = 1; } message N { repeated N items = 1; }",
    ],
)
def test_a_message_that_contains_itself_is_refused(text: str) -> None:
    message = message_at(file_of(HEAD + text), [0])
    with pytest.raises(DataError, match="contains itself"):
        connect_part(message, ProtobufOptions(), None)
    with pytest.raises(DataError, match="contains itself"):
        apicurio.connect_part(message)
