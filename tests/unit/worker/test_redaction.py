"""Secrets are known by their values, and stand nowhere any more."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.worker import redaction
from headrace.worker.errors import ConnectError, TimedOut
from headrace.worker.logs import ConnectFormatter
from headrace.worker.redaction import hide, log_text, masked, passed_on, secrets_of, trace_of


def test_the_log_does_not_show_what_is_hidden() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ConnectFormatter())
    logger = logging.Logger("x")
    logger.addHandler(handler)
    hide(["hunter2"])
    try:
        raise ValueError("login as u:hunter2 refused")
    except ValueError:
        logger.exception("with %s: %r", "hunter2", {"password": "hunter2"})
    assert "hunter2" not in stream.getvalue()
    assert stream.getvalue().count("[hidden]") == 4
    assert "Traceback" in stream.getvalue()


def test_no_trace_shows_what_is_hidden() -> None:
    hide(["hunter2"])
    assert trace_of(ValueError("hunter2 and other"), ["other"]).startswith("ValueError: [hidden] and [hidden]")


@pytest.mark.parametrize("secret", ["quo\"te's", "back\\slash", "umläut", "tab\tin it", "a+b(c"])
def test_a_secret_is_hidden_however_it_is_quoted(secret: str) -> None:
    hide([secret])
    for text in (
        secret,
        repr(secret),
        repr({"k": secret}),
        json.dumps(secret),
        json.dumps({"k": secret}),
        f"{secret}=",
    ):
        assert masked(text) != text
        assert secret[-4:] not in masked(text)


def test_each_line_of_a_secret_is_hidden() -> None:
    hide(["-----BEGIN KEY-----\nabcdefgh\n ijklmnop \n"])
    assert masked("abcdefgh, ijklmnop, BEGIN") == "[hidden], [hidden], BEGIN"


@pytest.mark.parametrize("word", ["", "1", "10000", "true", "NULL", "abc", "\n"])
def test_what_tells_nothing_stays_legible(word: str) -> None:
    hide([word])
    text = f"10000 records, true: abc {word}"
    assert masked(text) == text


def test_the_longer_secret_is_hidden_first_and_none_twice() -> None:
    hide(["hidden", "hunter", "hunter2000"])
    assert masked("hunter2000 hunter hidden") == "[hidden] [hidden] [hidden]"


def test_of_very_many_secrets_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_MOST", 2)
    for secret in ("first", "second", "third"):
        hide([secret])
    assert masked("first second third") == "first [hidden] [hidden]"


def test_secrets_are_found_in_a_config() -> None:
    config = {
        "connection.password": "a1",
        "connection.url": "jdbc:postgresql://u:b2@h/db?user=u&password=c3&ssl=true",
        "sasl.jaas.config": 'X required username="u" password="d;4";',
        "pin": "e5",
        "file": "f6",
    }
    found = secrets_of(config, {**config, "pin": "[hidden]"})
    assert {"a1", "b2", "c3", "d;4", "e5", config["sasl.jaas.config"]} == set(found)


def test_the_output_of_a_child_is_passed_on_without_secrets(tmp_path: Path) -> None:
    hide(["hunter2"])
    out = tmp_path / "out"
    script = "import sys; print('hunter2 one'); print('two hunter2', file=sys.stderr); sys.stdout.write('b\\xffd')"
    with open(out, "w", encoding="utf-8") as stream:
        with passed_on(stream) as output:
            subprocess.run([sys.executable, "-u", "-c", script], stdout=output, stderr=output, check=True)
        deadline = time.monotonic() + 10
        while out.read_text(encoding="utf-8").count("\n") < 2 or "d" not in out.read_text(encoding="utf-8"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert out.read_text(encoding="utf-8").splitlines()[:2] == ["[hidden] one", "two [hidden]"]


def test_lines_of_a_child_may_be_left_out(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with open(out, "w", encoding="utf-8") as stream:
        with passed_on(stream, without="WARNING: this") as output:
            script = "print('WARNING: this one'); print('WARNING: another'); print('end')"
            subprocess.run([sys.executable, "-c", script], stdout=output, check=True)
        deadline = time.monotonic() + 10
        while "end" not in out.read_text(encoding="utf-8"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert out.read_text(encoding="utf-8").splitlines() == ["WARNING: another", "end"]


def test_a_child_does_not_wait_for_a_stream_that_is_gone() -> None:
    stream = io.StringIO()
    stream.close()
    with passed_on(stream) as output:
        command = [sys.executable, "-c", "print('x' * 1_000_000)"]
        subprocess.run(command, stdout=output, check=True, timeout=30)


def test_an_uncaught_error_is_told_without_secrets() -> None:
    script = (
        "import sys, threading; from headrace.worker import logs, redaction; logs.set_up(); logs.take_uncaught()\n"
        "redaction.hide(['hunter2'])\n"
        "def fail(): raise ValueError('as hunter2')\n"
        "t = threading.Thread(target=fail, name='mine'); t.start(); t.join()\n"
        "fail()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "hunter2" not in ended.stdout + ended.stderr
    assert ended.stdout.count("ValueError: as [hidden]") == 2
    assert "The thread mine ended unexpectedly" in ended.stdout


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "has_trace"),
    [
        (ConnectError("not now"), False),
        (caused(ConnectError("not now"), TimedOut("too late")), False),
        (caused(RuntimeError("cannot begin"), ConnectError("not now")), False),
        (caused(ConnectError("not now"), KeyError("a bug")), True),
        (KeyError("a bug"), True),
    ],
)
def test_the_log_has_the_trace_of_an_error_only_where_it_is_unexpected(error: Exception, has_trace: bool) -> None:
    assert str(error) in log_text(error)
    assert ("KeyError: 'a bug'" in log_text(error)) is has_trace
