"""A side learns of the identities that it meets; no JVM is asked."""

from __future__ import annotations

import json

import pytest

from headrace.config.problems import ConfigError, Problem
from headrace.converters.json.converter import JsonConverter
from headrace.plugins.contracts import DataError, RetriableError
from headrace.plugins.interop.conversion.decode import MOST_HOPELESS, ConverterBinding
from headrace.plugins.schema import DECIMAL, STRING, TIMESTAMP, Schema


class Asked(JsonConverter):
    """Answers as it is told: an error is raised."""

    def __init__(self, *answers: Schema | Exception) -> None:
        self.answers = list(answers)

    def resolve(self, identity: bytes, topic: str) -> Schema | None:
        """The next answer; the last one for good."""
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def learned(*answers: Schema | Exception) -> ConverterBinding:
    return ConverterBinding(Asked(*answers), "C").learned([(b"x", "t")])


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DataError("no such id"), "no such id"),
        (DataError("half a \ud800 pair"), "half a ? pair"),
        (DataError("x" * 10_000), "x" * 2_000),
        (RecursionError("too deep"), "RecursionError: too deep"),
        (KeyError("error"), "KeyError: 'error'"),
    ],
)
def test_any_error_is_the_records(error: Exception, reason: str) -> None:
    assert [one.reason for one in learned(error).hopeless] == [reason]


@pytest.mark.parametrize("error", [RetriableError("away"), ConfigError(Problem("url", None, "401"))])
def test_what_is_no_records_fault_is_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        learned(error)


def test_what_was_hopeless_may_be_known_later() -> None:
    side = learned(DataError("not yet"), STRING)
    again = side.asked_again()
    assert again.known == ((b"x", STRING),)
    assert not again.hopeless


def test_what_stays_hopeless_compiles_nothing_anew() -> None:
    side = learned(DataError("never"))
    assert side.asked_again() == side


def test_beyond_a_bound_all_that_is_hopeless_has_one_reason() -> None:
    met = [(b"%d" % n, "t") for n in range(MOST_HOPELESS + 5)]
    side = ConverterBinding(Asked(DataError("no")), "C").learned(met)
    assert len(side.hopeless) == MOST_HOPELESS
    assert side.rest == {identity for identity, _ in met[MOST_HOPELESS:]}
    (one,) = side.of_the_rest().hopeless
    assert one.reason == f"Its schema is one of more than {MOST_HOPELESS} that cannot be read: no"
    assert side.learned(met) == side, "none of them is asked for again"
    assert not side.asked_again().rest


def envelope(schema: str) -> bytes:
    return f'{{"schema":{schema},"payload":'.encode()


def decimal(scale: str, default: str) -> str:
    return f'{{"type":"bytes","name":"{DECIMAL}","parameters":{{"scale":"{scale}"}},"default":{default}}}'


HOSTILE: dict[str, tuple[str, str]] = {
    "an exponent without end": ('{"type":"int32","default":1E+99999999999999999999}', "Converting byte"),
    "a number without end": (f'{{"type":"int32","default":{"1" * 1001}}}', "Converting byte"),
    "nesting": ('{"type":"array","items":' * 600 + '{"type":"int8"}' + "}" * 600, "too large"),
    "base64 that is none": ('{"type":"bytes","default":"é"}', "Invalid bytes field"),
    "a scale that is none": (decimal("x", "1"), "not an integer"),
    "a scale without end": (decimal("99999999999", "1"), "scale 99999999999"),
    "a decimal too long": (decimal("2", "1E+40"), "holds 38 digits"),
    "a decimal much too long": (decimal("2", "1E+999999999"), "holds 38 digits"),
    "a decimal too fine": (decimal("2", "1E-999999999"), "holds 38 digits"),
    "bytes too long": (decimal("2", json.dumps("f" * 100)), "holds 38 digits"),
    "a timestamp too far": (f'{{"type":"int64","name":"{TIMESTAMP}","default":{2**63 - 1}}}', "Invalid Timestamp"),
    "half a character": ('{"type":"\\ud800"}', r"Unknown schema type: \?"),
    "half a name": ('{"type":"struct","fields":[{"type":"int8","field":"\\ud800"}]}', r"whose name is no text: \?"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_costs_its_records_only(name: str) -> None:
    schema, reason = HOSTILE[name]
    converter = JsonConverter()
    converter.configure({"converter.type": "value"}, is_key=False)
    side = ConverterBinding(converter, "J").learned([(envelope(schema), "t")])
    (one,) = side.hopeless
    with pytest.raises(DataError, match=reason):
        raise DataError(one.reason)


@pytest.mark.parametrize(
    ("schema", "default"),
    [
        ('{"type":"int32","default":1e999999999}', 0),
        ('{"type":"int32","default":1E-999999999}', 0),
        ('{"type":"string","default":"\\ud800"}', "?"),
    ],
)
def test_odd_defaults_are_read_at_once(schema: str, default: object) -> None:
    converter = JsonConverter()
    converter.configure({"converter.type": "value"}, is_key=False)
    ((_, found),) = ConverterBinding(converter, "J").learned([(envelope(schema), "t")]).known
    assert found is not None
    assert found.default == default
