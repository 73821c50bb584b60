"""Requests that commands send to a worker: whom they trust, and what becomes of answers. A login is never shown."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from headrace.worker.cli.commands import app
from headrace.worker.cli.exits import CommandFailed
from headrace.worker.cli.login import Login
from headrace.worker.cli.worker_rest import Refused, WorkerRest
from tests.certificates import Authority
from tests.unit.converters.registry.scripted_registry import scripted

SECRET: Final = "hunter2-and-more"


def asked(login: Login, method: str = "GET") -> Any:
    with WorkerRest(login) as rest:
        return rest.asked(method, "/x", None if method == "GET" else {}, {"a": "b c"})


def redirect(target: str, status: int) -> Callable[[Any], None]:
    def answer(handler: Any) -> None:
        handler.send_response(status)
        handler.send_header("Location", target)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    return answer


def basic(login: str) -> str:
    return f"Basic {base64.b64encode(login.encode()).decode()}"


def test_a_login_is_sent() -> None:
    with scripted((200, {})) as played:
        asked(Login(played.url, user="ann:a:b"))
        asked(Login(played.url, token=SECRET))
        asked(Login(played.url.replace("://", "://ann:pw@")))
        asked(Login(f"{played.url}/"))
    sent = [one.headers.get("Authorization") for one in played.asked]
    assert sent == [basic("ann:a:b"), f"Bearer {SECRET}", basic("ann:pw"), None]
    assert {one.path for one in played.asked} == {"/x?a=b+c"}


@pytest.mark.parametrize(
    ("login", "said"),
    [
        (Login(user=SECRET), "NAME:PASSWORD"),
        (Login(token=f"{SECRET}\n"), "--token"),
        (Login(token=f"{SECRET}ü"), "--token"),
        (Login(user=f"ann:{SECRET}", token=SECRET), "only one"),
        (Login(f"http://ann:{SECRET}/x@host"), "--rest"),
        (Login(f"ann:{SECRET}@host"), "--rest"),
        (Login("localhost:8083"), "--rest"),
        (Login(cacert=Path("absent")), "--cacert absent cannot be read"),
        (Login(cert=Path("absent")), "--cert absent cannot be read"),
    ],
)
def test_a_login_that_cannot_be_used_is_wrong_use_and_not_shown(login: Login, said: str) -> None:
    with pytest.raises(CommandFailed, match=said) as told:
        asked(login)
    assert told.value.code == 2
    assert SECRET not in f"{told.value} {login!r}"


@pytest.mark.parametrize(
    ("status", "answer", "code", "said"),
    [
        (409, {"error_code": 409, "message": "it is so"}, 1, "answers GET /x with 409: it is so"),
        (200, b"<html>", 3, "is no worker: 200 '<html>'"),
        (502, b"<html>", 3, "is no worker: 502"),
        (500, b"", 3, "is no worker: 500"),
        (304, b"", 3, "is no worker: 304"),
        (404, {"detail": "none"}, 3, "is no worker: 404"),
    ],
)
def test_an_answer_that_is_no_success_has_a_reason_and_a_code(status: int, answer: Any, code: int, said: str) -> None:
    with scripted((status, answer)) as played, pytest.raises(CommandFailed) as told:
        asked(Login(played.url.replace("://", f"://ann:{SECRET}@")))
    assert (told.value.code, said in str(told.value), SECRET in str(told.value)) == (code, True, False), told.value
    assert isinstance(told.value, Refused) == (code == 1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_only_requests_that_send_nothing_follow_a_redirect(status: int) -> None:
    with scripted((200, {"moved": True})) as other:
        target = other.url.replace("://", f"://ann:{SECRET}@")
        with scripted((status, redirect(target, status))) as played:
            assert asked(Login(played.url, token=SECRET)) == {"moved": True}
            for method in ("PUT", "POST"):
                with pytest.raises(CommandFailed, match=r"redirects /x to http://\[hidden\]@127") as told:
                    asked(Login(played.url), method)
                assert told.value.code == 3
    assert [one.method for one in other.asked] == ["GET"]
    assert f"Bearer {SECRET}" not in other.asked[0].headers.values()


def test_https_is_trusted_by_the_authority_given_and_shown_the_clients_certificate(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.pem)
    (tmp_path / "own.pem").write_text(authority.issue("worker").pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "ca.pem")
    context.load_cert_chain(tmp_path / "own.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with scripted((200, {"name": "c"}), context=context) as played:
        trusting = Login(played.url, cacert=tmp_path / "ca.pem", cert=tmp_path / "own.pem")
        assert asked(trusting) == {"name": "c"}
        with pytest.raises(CommandFailed, match=r"no worker answers at https.*certificate verify failed"):
            asked(Login(played.url))


@pytest.mark.parametrize(
    "command",
    [
        ("apply", "FILE", "--plan"),
        ("diff", "FILE"),
        ("export", "OUT"),
        ("lint", "FILE"),
        ("preview", "FILE"),
        ("top", "--once"),
        ("dlq", "show", "c"),
        ("dlq", "replay", "c"),
    ],
)
def test_all_commands_send_the_login_of_the_environment(command: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"name": "a", "connector.class": "FileStreamSource", "topic": "t"}))
    words = [{"FILE": str(file), "OUT": str(tmp_path / "out")}.get(word, word) for word in command]
    with scripted((403, {"message": "no right"})) as played:
        result = CliRunner().invoke(app, [*words, "--rest", played.url], env={"HEADRACE_USER": f"ann:{SECRET}"})
        CliRunner().invoke(app, [*words, "--rest", played.url], env={"HEADRACE_TOKEN": SECRET})
    assert {one.headers["Authorization"] for one in played.asked} == {basic(f"ann:{SECRET}"), f"Bearer {SECRET}"}
    assert (result.exit_code, "no right" in result.stderr, SECRET in result.output) == (1, True, False), result.output
