"""The set that `headrace secure init` writes: whole, private, for a year at most, and never over another."""

from __future__ import annotations

import datetime
import os
import socket
import ssl
import stat
import threading
from pathlib import Path

import bcrypt
import pytest
from cryptography import x509
from typer.testing import CliRunner

from headrace.config.properties import read_properties
from headrace.worker.cli import secure_init
from headrace.worker.cli.commands import app
from headrace.worker.cli.secure_init import ORGANIZATION, USERS, InitError, SecureSet, write
from headrace.worker.cli.security_doctor import examine


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure_init, "_HASH_COST", 4)


@pytest.fixture
def made(tmp_path: Path) -> SecureSet:
    return write(tmp_path / "a b" / "secure", "broker:9093", ["connect.example.com", "10.0.0.5"], 9443, 9444)


def test_nobody_else_may_read_it(made: SecureSet) -> None:
    assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in made.folder.iterdir()}
    assert modes.pop("files") == 0o700
    assert modes.keys() == {
        "ca.pem",
        "ca.key",
        "server.pem",
        "client.pem",
        "users.properties",
        "rights.toml",
        "worker.properties",
    }
    assert set(modes.values()) == {0o600}


def test_passwords_are_random_and_stand_in_no_file(made: SecureSet) -> None:
    assert tuple(made.passwords) == USERS
    assert len(set(made.passwords.values())) == len(USERS)
    written = "".join(path.read_text() for path in made.folder.iterdir() if path.is_file())
    hashed = read_properties(made.folder / "users.properties")
    for user, password in made.passwords.items():
        assert len(password) >= 24
        assert password not in written
        assert password not in repr(made)
        assert bcrypt.checkpw(password.encode(), hashed[user].encode())


def test_certificates_are_for_development_and_for_a_year_at_most(made: SecureSet) -> None:
    now = datetime.datetime.now(datetime.UTC)
    for name in ("ca.pem", "server.pem", "client.pem"):
        certificate = x509.load_pem_x509_certificate((made.folder / name).read_bytes())
        assert f"O={ORGANIZATION}" in certificate.subject.rfc4514_string()
        assert certificate.not_valid_before_utc < now < certificate.not_valid_after_utc
        assert certificate.not_valid_after_utc - certificate.not_valid_before_utc <= datetime.timedelta(days=365)
    server = x509.load_pem_x509_certificate((made.folder / "server.pem").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"localhost", socket.gethostname(), "connect.example.com"} == set(names.get_values_for_type(x509.DNSName))
    assert {"127.0.0.1", "::1", "10.0.0.5"} == set(map(str, names.get_values_for_type(x509.IPAddress)))


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "connect.example.com"])
def test_both_sides_trust_each_other_by_the_strictest_rules(made: SecureSet, name: str) -> None:
    authority = str(made.folder / "ca.pem")
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority)
    server.load_cert_chain(made.folder / "server.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=authority)
    client.load_cert_chain(made.folder / "client.pem")
    for context in (server, client):
        context.verify_flags |= ssl.VERIFY_X509_STRICT
    shown: list[object] = []

    def serve(there: socket.socket) -> None:
        with server.wrap_socket(there, server_side=True) as opened:
            shown.append(opened.getpeercert())
            opened.sendall(b"x")

    here, there = socket.socketpair()
    thread = threading.Thread(target=serve, args=(there,))
    thread.start()
    with client.wrap_socket(here, server_hostname=name) as opened:
        assert opened.recv(1) == b"x"
    thread.join()
    assert "operator" in str(shown)


def test_the_worker_s_properties_name_what_was_written(made: SecureSet) -> None:
    props = read_properties(made.worker_file)
    named = {value for value in props.values() if value.startswith(str(made.folder))}
    assert {Path(one).name for one in named if not Path(one).exists()} == {"audit.log"}
    assert props["bootstrap.servers"] == "broker:9093"
    assert props["listeners"] == "https://127.0.0.1:9443"
    assert props["admin.listeners"] == "https://127.0.0.1:9444"
    assert props["ssl.principal.mapping.rules"] == f"RULE:^CN=([^,]+),O={ORGANIZATION}$/$1/"


def test_the_doctor_has_nothing_to_say_but_of_the_brokers(made: SecureSet) -> None:
    found = {one.name: one for one in examine(made.worker_file)}
    assert [name for name, one in found.items() if one.state != "ok"] == ["brokers"]
    assert "PLAINTEXT to broker:9093" in found["brokers"].found


def test_nothing_is_written_over_what_is_there(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    first = write(kept)
    assert first.folder == kept, "an empty folder is taken"
    before = {path.name: path.stat().st_mtime_ns for path in kept.iterdir()}
    with pytest.raises(InitError, match="not empty"):
        write(kept)
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(InitError, match="there already"):
        write(file)
    assert {path.name: path.stat().st_mtime_ns for path in kept.iterdir()} == before
    assert sorted(os.listdir(tmp_path)) == ["file", "kept"], "no draft is left"


def test_a_wrong_host_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(InitError, match="--host müller"):
        write(tmp_path / "new", hosts=["müller"])
    assert not os.listdir(tmp_path)


def test_the_command_says_how_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    done = CliRunner().invoke(app, ["secure", "init", str(folder), "--port", "9443"])
    assert done.exit_code == 0, done.output
    (shown,) = [line.split()[1] for line in done.output.splitlines() if line.startswith("  admin ")]
    hashed = read_properties(folder / "users.properties")["admin"]
    assert bcrypt.checkpw(shown.encode(), hashed.encode())
    assert f"connect-distributed {folder / 'worker.properties'}" in done.output
    wanted = f"curl --cacert {folder / 'ca.pem'} -u admin:{shown} https://localhost:9443/connectors"
    assert wanted in done.output
    again = CliRunner().invoke(app, ["secure", "init", str(folder)])
    assert again.exit_code == 2
    assert "nothing was written" in again.output
