"""The principal of a forwarded request: only a worker of the cluster can say it, for one request, for a minute."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.config.values import Password
from headrace.rest.security import forwarded
from headrace.rest.security.forwarded import bound, forwarded_principal, headers_for, key_to_sign
from headrace.rest.security.principal import Principal
from headrace.rest.security.refusals import Unchecked
from headrace.worker.errors import ConnectError
from headrace.worker.storage.signing import SessionKey

KEY = SessionKey.generate()
WHO = Principal("CN=Änn,O=b", frozenset({"ops", "dev"}))
TARGET = "/connectors/a%2Fb/config?forward=true"


def scope(headers: dict[str, str], method: str = "PUT", target: str = TARGET) -> dict[str, Any]:
    path, _, query = target.partition("?")
    return {
        "type": "http",
        "method": method,
        "path": "decoded",
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }


def test_it_comes_through_with_its_groups() -> None:
    headers = headers_for(WHO, "PUT", TARGET, KEY)
    assert forwarded_principal(scope(headers), lambda: KEY) == WHO
    assert forwarded_principal(scope({}), lambda: KEY) is None


@pytest.mark.parametrize(("method", "target"), [("DELETE", TARGET), ("PUT", "/connectors/b/config?forward=true")])
def test_it_is_for_one_request(method: str, target: str) -> None:
    headers = headers_for(WHO, "PUT", TARGET, KEY)
    with pytest.raises(Unchecked, match="not signed") as refused:
        forwarded_principal(scope(headers, method, target), lambda: KEY)
    assert refused.value.status == 403


def test_nobody_without_the_key_can_say_it() -> None:
    others = headers_for(WHO, "PUT", TARGET, SessionKey.generate())
    changed = headers_for(Principal("admin"), "PUT", TARGET, KEY)
    said = {**headers_for(WHO, "PUT", TARGET, KEY), forwarded.PRINCIPAL_HEADER: changed[forwarded.PRINCIPAL_HEADER]}
    as_body = {**changed, "X-Headrace-Principal-Signature": KEY.sign(b"[]")["X-Connect-Authorization"]}
    broken = {**changed, "X-Headrace-Principal-Signature": "é"}
    for headers in (others, said, as_body, broken):
        with pytest.raises(Unchecked, match="not signed"):
            forwarded_principal(scope(headers), lambda: KEY)


def test_it_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = headers_for(WHO, "PUT", TARGET, KEY)
    now = forwarded._now_ms()
    for away in (61_000, -61_000):
        monkeypatch.setattr(forwarded, "_now_ms", lambda away=away: now + away)
        with pytest.raises(Unchecked, match="clocks"):
            forwarded_principal(scope(headers), lambda: KEY)


def test_without_a_key_both_sides_say_so() -> None:
    with pytest.raises(ConnectError, match="session key") as refused:
        key_to_sign(lambda: None)
    assert refused.value.status == 503
    with pytest.raises(Unchecked, match="session key") as unchecked:
        forwarded_principal(scope(headers_for(WHO, "PUT", TARGET, KEY)), lambda: None)
    assert unchecked.value.status == 503


def test_who_has_only_the_session_key_cannot_say_it_where_there_is_a_secret() -> None:
    find, others = bound(lambda: KEY, Password("ours")), bound(lambda: KEY, Password("theirs"))
    ours, theirs = find(), others()
    assert ours is not None
    assert theirs is not None
    assert forwarded_principal(scope(headers_for(WHO, "PUT", TARGET, ours)), find) == WHO
    for key in (KEY, theirs):
        with pytest.raises(Unchecked, match=r"inter\.worker\.principal\.secret"):
            forwarded_principal(scope(headers_for(WHO, "PUT", TARGET, key)), find)
    assert bound(lambda: KEY, None)() is KEY
    assert bound(lambda: None, Password("ours"))() is None
