"""Secrets are known by their values, and stand nowhere any more."""

from __future__ import annotations

import io
import json
import logging
import pickle
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote, quote_plus, unquote

import pytest

from headrace.worker.errors import ConnectError, TimedOut
from headrace.worker.logging import redaction
from headrace.worker.logging.logs import ConnectFormatter, connector_context
from headrace.worker.logging.redaction import (
    WORKER,
    Redaction,
    hide_everywhere,
    log_text,
    passed_on,
    running,
    secrets_of,
    trace_of,
)


def line(logger: str, text: str, *args: object) -> str:
    """Return the line that the log shows."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(ConnectFormatter())
    made = logging.Logger(logger)
    made.addHandler(handler)
    made.error(text, *args)
    return stream.getvalue()


def test_a_connector_s_lines_are_without_its_secrets_and_the_worker_s() -> None:
    WORKER.learn(["w0rker-pw"])
    own = Redaction(["hunter2"])
    with connector_context("c", "task-0", redaction=own):
        try:
            raise ValueError("login as u:hunter2 refused")
        except ValueError:
            told = line("x", "with %s: %r, w0rker-pw", "hunter2", {"password": "hunter2"}) + trace_of(
                ValueError("hunter2"), own
            )
    assert "hunter2" not in told
    assert "w0rker-pw" not in told


def test_another_connector_s_lines_and_the_worker_s_own_are_not_filtered_by_it() -> None:
    own = running(Redaction(["hunter2"]))
    with connector_context("other", "task-0", redaction=Redaction(["else-9"])):
        assert "hunter2" in line("headrace.worker.tasks", "%s", "hunter2")
    assert "hunter2" in line("headrace.rest.http.errors", "PUT answered with 400: no class hunter2")
    assert "hunter2" not in line("driver", "cannot log in as hunter2")  # of a plugin's own thread
    assert "hunter2" not in line("headrace.worker.storage.status_topic", "The status with hunter2 is sent again")
    assert own.hide("hunter2") == "[hidden]"


def test_the_tasks_of_a_config_share_a_redaction_that_goes_with_them() -> None:
    made = [running(Redaction(["hunter2"], ["orders"])) for _ in range(3)]
    other = running(Redaction(["hunter2"], ["hunter2"]))
    assert made[0] is made[1] is made[2] is not other
    made[0].learn(["learned-3"])
    assert hide_everywhere("hunter2, learned-3") == "[hidden], [hidden]"
    made.clear()
    assert hide_everywhere("hunter2, learned-3") == "hunter2, learned-3"
    assert hide_everywhere("password=hunter2") == "password=[hidden]"


def test_a_line_costs_little_however_many_connectors_run() -> None:
    kept = [running(Redaction([f"s3cret-{n}-{n}", "shared-pw", f"k{n}"], [f"orders-{n}"])) for n in range(2_000)]
    text = f"{'The status of a task is sent again. ' * 8}s3cret-77-77 and shared-pw, not s3cret-77-78, password=k1"
    begun = time.thread_time()
    for _ in range(20):
        hidden = hide_everywhere(text)
    assert hidden.endswith("[hidden] and [hidden], not s3cret-77-78, password=[hidden]")
    assert (time.thread_time() - begun) / 20 < 0.005
    assert len(kept) == 2_000


def test_an_error_is_without_its_connector_s_secrets_wherever_it_is_logged() -> None:
    def fail() -> None:
        with connector_context("c", "validate", redaction=Redaction(["hunter2"])):
            raise ValueError("not hunter2")

    with pytest.raises(ValueError, match="hunter2") as raised:
        fail()
    assert "hunter2" not in line("headrace.rest", "Failed: %s", raised.value)
    outer = caused(ConnectError("failed with hunter2"), raised.value)
    assert "hunter2" not in trace_of(outer) + log_text(outer)


def test_a_login_s_bytes_are_never_written() -> None:
    assert "postgres" not in line("kafka.net.connection", "Request 1: SaslRequest(auth_bytes=%r)", b"\x00u\x00postgres")
    assert "hunter2" not in Redaction(["hunter2"]).hide(repr("\x00u\x00hunter2"))


@pytest.mark.parametrize("word", ["connect", "postgres", "1", "10000", "true", "abc"])
def test_ordinary_words_are_hidden_only_as_values_of_secrets(word: str) -> None:
    own = Redaction([word])
    text = f'gives {word}ors, user "{word}" at jdbc:{word}ql://h, password authentication failed, for {word}'
    assert own.hide(text) == text
    for place in (
        "password={}", '"database.password": "{}"', "{{'password': '{}'}}", "jdbc:x://u:{}@h/d", "PASSWORD '{}'",
        'JAAS required username="u" password="{}";', "Invalid value {} for configuration x.password: no",
    ):  # fmt: skip
        assert own.hide(place.format(word)) == place.format("[hidden]")


def test_what_stands_in_a_plain_setting_is_no_oracle() -> None:
    WORKER.learn(["gu3ss-me-now"])
    own = Redaction.of({"topic": "gu3ss-me-now", "x.password": "inv3ntory", "users": " me, inv3ntory"})
    assert own.hide("no topic gu3ss-me-now, user inv3ntory") == "no topic gu3ss-me-now, user inv3ntory"
    assert own.hide("password=inv3ntory") == "password=[hidden]"
    assert Redaction.of({"url": "jdbc:x://h?password=hunter2"}).hide("as hunter2") == "as [hidden]"


@pytest.mark.parametrize("secret", ["quo\"te's", "back\\slash", "umläut", "tab\tin it", "a+b(cd", "end of it!"])
def test_a_secret_is_hidden_however_it_is_quoted(secret: str) -> None:
    own = Redaction([secret])
    for text in (
        secret,
        repr(secret),
        repr({"k": secret}),
        json.dumps({"k": secret}),
        f"{secret}=",
        repr(f"\n{secret}"),
    ):
        assert own.hide(text) != text
        assert secret[-4:] not in own.hide(text)


@pytest.mark.parametrize(
    ("config", "secret"),
    [
        (
            {"connection.url": "jdbc:oracle:thin:scott/Tiger-1234@//h/d", "connection.password": "Tiger-1234"},
            "Tiger-1234",
        ),
        ({"connection.url": "jdbc:oracle:thin:scott/Tiger-1234@h:1521:d"}, "Tiger-1234"),
        ({"basic.auth.user.info": "svc:PW-12345", "x.password": "PW-12345"}, "PW-12345"),
        ({"value.converter.basic.auth.user.info": "svc:PW-12345"}, "PW-12345"),
        ({"connection.url": "jdbc:mysql://u:p@ss-9x7@h/d?x=y"}, "p@ss-9x7"),
        ({"connection.url": "jdbc:mysql://u:p@ss-9x7@h"}, "p@ss-9x7"),
        ({"urls": "http://u:first-1@h/,http://v:second-2@h/"}, "second-2"),
        ({"connection.url": "http://u:p/ss-9x7@h/"}, "p/ss-9x7"),
        ({"connection.url": "http://u:p%40ss-9x7@h/"}, "p@ss-9x7"),
        ({"connection.url": "jdbc:sqlserver://h;user=u;password={a;b-12345}"}, "a;b-12345"),
        ({"connection.url": "jdbc:sqlserver://h;password={a}}b-12345};x=y"}, "a}b-12345"),
        ({"sasl.jaas.config": 'X required username="u" password="a\\"b-12345";'}, 'a"b-12345'),
        ({"producer": 'X required username=\\"u\\" password=\\"ab-12345\\";'}, "ab-12345"),
        ({"query": "CREATE USER x PASSWORD 'ab-12345'", "x.password": "ab-12345"}, "ab-12345"),
        ({"query": "SELECT x ab-12345", "x.password": "ab-12345"}, "ab-12345"),
    ],
)
def test_a_login_is_hidden_wherever_a_setting_holds_it(config: dict[str, str], secret: str) -> None:
    own = Redaction.of(config)
    for text in (f"No login with {secret}", f"{secret} ", *config.values()):
        assert secret not in own.hide(text)
    assert (
        own.hide(f"No login of scott, svc or u at h with {secret}") == "No login of scott, svc or u at h with [hidden]"
    )


@pytest.mark.parametrize("secret", ["a b/c-1234", "abcd1234", "p@ss:9+x7", "p%40ss-9x7"])
def test_a_secret_is_hidden_within_a_url(secret: str) -> None:
    own = Redaction([secret])
    for form in (quote(secret), quote(secret, ""), quote_plus(secret), unquote(secret)):
        assert own.hide(f"GET /%2F{form}?x") == "GET /%2F[hidden]?x"


def test_each_line_of_a_secret_is_hidden() -> None:
    own = Redaction(["-----BEGIN KEY-----\nabc0efgh\n ijk1mnop \n"])
    assert own.hide("abc0efgh, ijk1mnop, BEGIN") == "[hidden], [hidden], BEGIN"


def test_the_longer_secret_is_hidden_first_and_none_within_a_word() -> None:
    own = Redaction(["hunter2", "hunter2-000"])
    assert own.hide("hunter2-000 hunter2 hunter25") == "[hidden] [hidden] hunter25"


def test_of_very_many_secrets_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_MOST", 2)
    own = Redaction(["first-1", "second-2", "third-3"])
    assert own.hide("first-1 second-2 third-3") == "first-1 [hidden] [hidden]"


def test_it_travels_with_the_worker_s_secrets() -> None:
    WORKER.learn(["w0rker-pw"])
    there = pickle.loads(pickle.dumps(Redaction(["hunter2"])))
    assert there.hide("hunter2 w0rker-pw") == "[hidden] [hidden]"


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


@pytest.mark.parametrize(
    "value",
    [
        "a" * 100_000 + "=",
        "@" + "://u:" * 20_000,
        "@" + "jdbc:oracle:thin:" * 10_000,
        'password="' + '\\"' * 50_000,
        "a=" * 50_000,
    ],
)
def test_a_long_setting_is_searched_quickly(value: str) -> None:
    begun = time.thread_time()
    secrets_of({"x": value})
    assert time.thread_time() - begun < 5


def test_the_output_of_a_child_is_passed_on_without_secrets(tmp_path: Path) -> None:
    WORKER.learn(["hunter2"])
    out = tmp_path / "out"
    script = "import sys; print('hunter2 one'); print('two hunter2', file=sys.stderr); sys.stdout.write('b\\xffd')"
    with open(out, "w", encoding="utf-8") as stream:
        with passed_on(stream) as output:
            subprocess.run([sys.executable, "-u", "-c", script], stdout=output, stderr=output, check=True)
        deadline = time.monotonic() + 60
        while out.read_text(encoding="utf-8").count("\n") < 2 or "d" not in out.read_text(encoding="utf-8"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert out.read_text(encoding="utf-8").splitlines()[:2] == ["[hidden] one", "two [hidden]"]


def test_lines_of_a_child_may_be_left_out(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with open(out, "w", encoding="utf-8") as stream:
        with passed_on(stream, lambda line: line.startswith("WARNING: this")) as output:
            script = "print('WARNING: this one'); print('WARNING: another'); print('end')"
            subprocess.run([sys.executable, "-c", script], stdout=output, check=True)
        deadline = time.monotonic() + 60
        while "end" not in out.read_text(encoding="utf-8"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert out.read_text(encoding="utf-8").splitlines() == ["WARNING: another", "end"]


def test_a_child_does_not_wait_for_a_stream_that_is_gone() -> None:
    stream = io.StringIO()
    stream.close()
    with passed_on(stream) as output:
        command = [sys.executable, "-c", "print('x' * 1_000_000)"]
        subprocess.run(command, stdout=output, check=True, timeout=60)


def test_an_uncaught_error_is_told_without_secrets() -> None:
    script = (
        "import sys, threading; from headrace.worker.logging import logs, redaction\n"
        "logs.set_up(); logs.take_uncaught()\n"
        "redaction.WORKER.learn(['hunter2'])\n"
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
