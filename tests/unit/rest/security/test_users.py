"""Files of users: where the settings name them, what is refused and what to do, and what a change does."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import bcrypt
import pytest

from headrace.config.problems import ConfigError
from headrace.rest.security import watched_file
from headrace.rest.security.users import MODULE, read_users, users_file
from headrace.rest.security.watched_file import WatchedFile

APACHES = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"


def hashed(password: str, cost: int = 4) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def jaas(folder: Path, users: str) -> Path:
    return written(folder / "jaas.conf", f'KafkaConnect {{ {MODULE} required file="{users}"; }};')


def test_plain_and_hashed_passwords(tmp_path: Path) -> None:
    as_htpasswd = hashed("apache").replace("$2b$", "$2y$")
    users = read_users(written(tmp_path / "u", f"plain=p:w=1\nhash={hashed('secret')}\nhtpasswd:{as_htpasswd}\n"))
    assert users.has_plain("plain", "p:w=1")
    assert not users.has_plain("plain", "p:w=2")
    assert not users.has_plain("nobody", "")
    for name, password in (("hash", "secret"), ("htpasswd", "apache")):
        stored = users.hash_for(name)
        assert stored is not None
        assert users.has_hashed(name, password, stored)
        assert not users.has_hashed(name, "other", stored)
    assert "secret" not in repr(users)


def test_an_unknown_user_costs_a_hash_and_never_passes(tmp_path: Path) -> None:
    users = read_users(written(tmp_path / "u", f"known={hashed('secret')}\n"))
    stored = users.hash_for("unknown")
    assert stored is not None
    assert not users.has_hashed("unknown", "secret", stored)


def test_an_answer_takes_as_long_however_the_password_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time is counted in rounds of bcrypt, which double with each cost."""
    cheap, dear = (bcrypt.hashpw(b"secret", bcrypt.gensalt(cost)).decode() for cost in (4, 6))
    users = read_users(written(tmp_path / "u", f"plain=secret\ncheap={cheap}\ndear={dear}\n"))
    check, done = bcrypt.checkpw, list[int]()

    def counted(password: bytes, stored: bytes) -> bool:
        done.append(1 << int(stored[4:6]))
        return check(password, stored)

    monkeypatch.setattr(bcrypt, "checkpw", counted)
    for name in ("plain", "cheap", "dear", "unknown"):
        for password in ("secret", "other", ""):
            done.clear()
            stored = users.hash_for(name)
            assert stored is not None
            assert users.has_hashed(name, password, stored) == (name != "unknown" and password == "secret"), name
            assert sum(done) == 1 << 6


def test_bcrypt_takes_72_bytes_as_everywhere(tmp_path: Path) -> None:
    users = read_users(written(tmp_path / "u", f"long={hashed('x' * 72)}\n"))
    stored = users.hash_for("long")
    assert stored is not None
    assert users.has_hashed("long", "x" * 80, stored)
    assert not users.has_hashed("long", "x" * 71, stored)
    assert not users.has_hashed("long", "\0", stored)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no users"),
        ("# only a comment\n", "has no users"),
        ("ann=\n", "'ann' has no password"),
        ("ann=$2b$12$hunter2\n", "begins like a bcrypt hash"),
        (f"ann=$2b$31${'x' * 53}\n", "has the cost 31"),
        ("ann=hunter2\\u12x\n", "not a properties file"),
    ],
)
def test_what_is_no_file_of_users_is_refused_without_passwords(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        read_users(written(tmp_path / "u", text))
    assert "hunter2" not in str(refused.value)
    assert "u12x" not in str(refused.value)


def test_it_is_found_as_apaches_workers_find_it(tmp_path: Path) -> None:
    users = written(tmp_path / "users", "a=b\n")
    option = {"KAFKA_OPTS": f"-Xmx1g -Djava.security.auth.login.config={jaas(tmp_path, str(users))}"}
    assert users_file({}, option, as_apache=True) == users
    assert users_file({}, option, as_apache=False) is None
    by_setting = {"java.security.auth.login.config": str(tmp_path / "jaas.conf")}
    assert users_file(by_setting, {}, as_apache=True) == users
    assert users_file({"rest.basic.auth.users.file": str(users)}, {}, as_apache=False) == users


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "The JAAS file cannot be read: No such file"),
        ("KafkaClient { a.B required; };", "has no section KafkaConnect"),
        ("KafkaConnect { };", "has no section KafkaConnect"),
        ("KafkaConnect { org.example.Ldap required url=x; };", "only .*PropertyFileLoginModule is served"),
        (f"KafkaConnect {{ {MODULE} required; }};", "has no option file"),
        (f'KafkaConnect {{ {MODULE} required file="${{user.home}}/u"; }};', "not resolved"),
        (f'KafkaConnect {{ {MODULE} required file="/nowhere/u"; }};', "There is no such file"),
        (f'KafkaConnect {{ {MODULE} required file="/tmp"; }};', "It is no file"),
        ("KafkaConnect {", "It is not a JAAS file: at the end"),
    ],
)
def test_a_jaas_file_without_users_refuses_the_start(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "jaas.conf"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        users_file({}, {"KAFKA_OPTS": f"-Djava.security.auth.login.config={file}"}, as_apache=True)


def test_without_a_jaas_file_it_says_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"Set rest\.basic\.auth\.users\.file .* KAFKA_OPTS=-D"):
        users_file({}, {}, as_apache=True)


def test_a_changed_file_is_read_again_and_a_broken_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_file, "_LOOK_S", 0.0)
    caplog.set_level(logging.INFO)
    path = written(tmp_path / "u", "ann=first\n")
    watched = WatchedFile(path, read_users)
    assert watched.current().has_plain("ann", "first")
    new = written(tmp_path / "new", "ann=the second\n")
    os.replace(new, path)
    assert watched.current().has_plain("ann", "the second")
    path.unlink()
    assert watched.current().has_plain("ann", "the second")
    assert watched.current().has_plain("ann", "the second")
    assert caplog.text.count("what it had before is used") == 1
    written(path, "ann=third\n")
    assert watched.current().has_plain("ann", "third")
    assert "second" not in caplog.text
