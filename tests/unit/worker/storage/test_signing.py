"""The session key as its record has it, and what a signature is worth; signatures as openssl makes them."""

from __future__ import annotations

import base64
import json

import pytest

from headrace.worker.errors import ConnectError
from headrace.worker.model import Signed
from headrace.worker.storage.signing import SessionKey, verify

KEY = SessionKey(bytes(range(32)), "HmacSHA256", 1_700_000_000_000)
OF_BODY = "hH+rJfoQJthY2NARgGn0vkyf8mYnlJgBh7Q3IY5l4PE="
OF_NOTHING_SHA1 = "tFmyocn8L2aMZQn2kH1B8iCfUHw="
SHA1 = ("HmacSHA256", "HmacSHA1")


def refused(request: Signed, key: SessionKey | None = KEY) -> tuple[int, str]:
    with pytest.raises(ConnectError) as raised:
        verify(request, key)
    return raised.value.status, raised.value.message


def test_signs_as_java_does() -> None:
    assert KEY.sign(b"body") == {
        "X-Connect-Authorization": OF_BODY,
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }
    assert KEY.sign(b"", "HmacSHA1")["X-Connect-Authorization"] == OF_NOTHING_SHA1


def test_what_was_signed_with_the_key_is_accepted() -> None:
    verify(Signed(b"body", OF_BODY, "HmacSHA256"), KEY)
    verify(Signed(b"", OF_NOTHING_SHA1, "HmacSHA1"), KEY, SHA1)


@pytest.mark.parametrize(("signature", "algorithm"), [(None, "HmacSHA256"), (OF_BODY, None), (None, None)])
def test_what_is_not_signed_is_refused(signature: str | None, algorithm: str | None) -> None:
    assert refused(Signed(b"body", signature, algorithm)) == (400, "Internal request missing required signature")


@pytest.mark.parametrize(
    "request_",
    [
        Signed(b"body ", OF_BODY, "HmacSHA256"),
        Signed(b"body", base64.b64encode(b"x" * 32).decode(), "HmacSHA256"),
        Signed(b"body", "", "HmacSHA256"),
    ],
)
def test_a_wrong_signature_is_forbidden(request_: Signed) -> None:
    assert refused(request_) == (403, "Internal request contained invalid signature.")


def test_another_key_s_signature_is_forbidden() -> None:
    assert refused(Signed(b"body", OF_BODY, "HmacSHA256"), SessionKey.generate())[0] == 403


def test_no_key_yet_is_said() -> None:
    assert refused(Signed(b"body", OF_BODY, "HmacSHA256"), None) == (
        503,
        "This worker is still starting up and has not been able to read a session key from the config topic yet",
    )


def test_an_algorithm_that_is_not_allowed_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConnectError) as raised:
        verify(Signed(b"body", OF_BODY, "HmacMD5"), KEY, SHA1)
    assert (raised.value.status, raised.value.message) == (
        400,
        "This worker does not support the 'HmacMD5' key signing algorithm used by other workers. This worker is "
        "currently configured to use: [HmacSHA256, HmacSHA1]. Check that all workers' configuration files permit the "
        "same set of signature algorithms, and correct any misconfigured worker and restart it.",
    )


@pytest.mark.parametrize("signature", ["?", "ä", "abc"])
def test_what_is_no_base64_is_refused(signature: str) -> None:
    assert refused(Signed(b"body", signature, "HmacSHA256"))[0] == 400


def test_the_record_has_java_s_members_in_their_order() -> None:
    value = {"key": "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "algorithm": "HmacSHA256"}
    value_and_time = {**value, "creation-timestamp": 1_700_000_000_000}
    assert json.dumps(KEY.value()) == json.dumps(value_and_time)
    assert SessionKey.of_value(value_and_time) == KEY


@pytest.mark.parametrize(
    "value",
    [None, [], {}, {"key": "s3cret!", "algorithm": "a", "creation-timestamp": 1}, {**KEY.value(), "algorithm": None}],
)
def test_a_record_that_is_no_key_is_refused_without_showing_it(value: object) -> None:
    with pytest.raises(ValueError, match="session key") as raised:
        SessionKey.of_value(value)
    assert "s3cret" not in str(raised.value)


def test_a_key_has_its_life_less_its_age_left_whatever_the_clock_says() -> None:
    assert KEY.left_ms(1000, KEY.created_ms + 999) == 1
    assert KEY.left_ms(1000, KEY.created_ms + 10**12) == 0
    assert KEY.left_ms(1000, KEY.created_ms - 10**12) == 1000


@pytest.mark.parametrize(
    ("algorithm", "size", "length"),
    [("HmacSHA256", None, 32), ("HmacMD5", None, 64), ("hmacsha224", None, 28), ("HmacSHA512", 100, 13)],
)
def test_keys_are_as_long_as_java_makes_them_and_never_alike(algorithm: str, size: int | None, length: int) -> None:
    one, other = SessionKey.generate(algorithm, size), SessionKey.generate(algorithm, size)
    assert len(one.key) == length
    assert one.key != other.key
    assert one.made_as(algorithm, size)
    assert not one.made_as("HmacSHA1", size)
    assert not one.made_as(algorithm, 8)


def test_the_key_is_not_shown() -> None:
    assert "0102" not in repr(KEY)
    assert KEY.value()["key"] not in repr(KEY)
    assert repr(KEY) == "SessionKey(algorithm='HmacSHA256', created_ms=1700000000000)"
