"""The doctor's words on a worker's security."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from typer.testing import CliRunner

from headrace.worker.cli import doctor, security_doctor
from headrace.worker.cli.commands import app
from headrace.worker.cli.doctor import ReportLine, Verdict
from headrace.worker.cli.security_doctor import examine
from tests.unit.converters.registry.scripted_registry import identity

OK, WARN, FAIL = Verdict.OK, Verdict.WARN, Verdict.FAIL
Examined = Callable[..., Mapping[str, ReportLine]]


@pytest.fixture
def examined(tmp_path: Path) -> Examined:
    def examine_these(**settings: str) -> Mapping[str, ReportLine]:
        file = tmp_path / "worker.properties"
        given = {"bootstrap.servers": "127.0.0.1:9092", **{k.replace("_", "."): v for k, v in settings.items()}}
        file.write_text("".join(f"{key}={value}\n" for key, value in given.items()))
        file.chmod(0o644)
        return {one.name: one for one in examine(file)}

    return examine_these


def test_what_is_off_by_default_is_warned_of_with_advice(examined: Examined) -> None:
    found = examined()
    assert {name for name, one in found.items() if one.state is WARN} == {
        "listeners",
        "admin.listeners",
        "login",
        "rest.mask.secrets",
        "connector.allowed.hosts",
        "connector.client.config.override.policy",
    }
    assert all(one.advice for one in found.values() if one.state is not OK)
    assert "no TLS" in found["listeners"].found
    assert found["brokers"].found == "PLAINTEXT, on this machine"


@pytest.mark.parametrize(
    ("settings", "name", "state"),
    [
        ({"listeners": "http://127.0.0.1:8083"}, "listeners", OK),
        ({"listeners": "http://localhost:8083,https://:8443"}, "listeners", OK),
        ({"listeners": "https://:8443,http://:8083"}, "listeners", WARN),
        ({"listeners": "http://10.0.0.1:8083"}, "listeners", WARN),
        ({"admin_listeners": ""}, "admin.listeners", OK),
        ({"rest_extension_classes": "BasicAuthSecurityRestExtension"}, "login", OK),
        ({"rest_client_certificate_login": "false"}, "login", WARN),
        ({"group_id": "g"}, "inter.worker.principal.secret", WARN),
        ({"group_id": "g", "inter_worker_principal_secret": "s"}, "inter.worker.principal.secret", OK),
        ({"connector_client_config_override_policy": "Principal"}, "connector.client.config.override.policy", OK),
        ({"rest_mask_secrets": "true"}, "rest.mask.secrets", OK),
        ({"connector_allowed_hosts": "*.example.com,10.0.0.0/8"}, "connector.allowed.hosts", OK),
        ({"connector_allowed_hosts": "10.0.*"}, "connector.allowed.hosts", FAIL),
        ({"bootstrap_servers": "broker:9092"}, "brokers", WARN),
        # Tasks' clients have nothing of what stands without their prefix.
        ({"bootstrap_servers": "broker:9092", "security_protocol": "SASL_SSL"}, "brokers", WARN),
        (
            {
                "bootstrap_servers": "broker:9092",
                "security_protocol": "SASL_SSL",
                "producer_security_protocol": "SASL_SSL",
                "consumer_security_protocol": "SSL",
            },
            "brokers",
            OK,
        ),
        (
            {
                "bootstrap_servers": "broker:9092",
                "security_protocol": "SASL_SSL",
                "producer_security_protocol": "SASL_PLAINTEXT",
                "consumer_security_protocol": "SASL_SSL",
            },
            "brokers",
            WARN,
        ),
        ({"group_id": "g", "listeners": "http://127.0.0.1:8083"}, "listeners", OK),
        ({"listeners": "8083"}, "worker", FAIL),
    ],
)
def test_each_setting(examined: Examined, settings: dict[str, str], name: str, state: Verdict) -> None:
    assert examined(**settings)[name].state is state


def test_certificates(examined: Examined, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = identity("worker")
    store, bundle, broken = tmp_path / "store.p12", tmp_path / "own.pem", tmp_path / "broken.pem"
    locked = BestAvailableEncryption(b"geheim")
    store.write_bytes(pkcs12.serialize_key_and_certificates(b"w", own.key, own.certificate, None, locked))
    bundle.write_text(own.pem)
    broken.write_text("-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n")
    inline = own.certificate_pem.replace("\n", "\\\\n")
    settings = {
        "listeners_https_ssl_keystore_location": str(store),
        "listeners_https_ssl_keystore_password": "geheim",
        "ssl_keystore_location": str(bundle),
        "producer_ssl_truststore_location": str(bundle),
        "consumer_ssl_truststore_certificates": inline,
        "admin_ssl_keystore_location": str(broken),
        "admin_ssl_truststore_location": str(tmp_path / "missing.pem"),
        "admin_listeners_https_ssl_keystore_location": str(store),
        "admin_listeners_https_ssl_keystore_password": "wrong",
    }
    names = {
        "listeners.https.ssl.keystore.location",
        "ssl.keystore.location",
        "producer.ssl.truststore.location",
        "consumer.ssl.truststore.certificates",
    }
    broken_ones = {
        "admin.ssl.keystore.location",
        "admin.ssl.truststore.location",
        "admin.listeners.https.ssl.keystore.location",
    }
    end = own.certificate.not_valid_after_utc

    class Clock(datetime.datetime):
        days_left = 31.0

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Clock:
            at = end - datetime.timedelta(days=cls.days_left)
            return cls.fromtimestamp(at.timestamp(), tz)

    monkeypatch.setattr(security_doctor.datetime, "datetime", Clock)
    for days, state in ((31, OK), (29, WARN), (-1, FAIL)):
        Clock.days_left = days
        found = examined(**settings)
        told = {name: found[name].state for name in names}
        assert told == {name: WARN if state is FAIL and "truststore" in name else state for name in names}
        assert {found[name].state for name in broken_ones} == {FAIL}
        assert "geheim" not in str(found)


def test_secrets_that_others_may_read(examined: Examined, tmp_path: Path) -> None:
    assert "file mode" not in examined(), "there is no secret in it"
    assert "file mode" not in examined(ssl_keystore_password="${file:/x:y}", listeners="http://127.0.0.1:1")
    found = examined(ssl_keystore_password="geheim")
    assert "worker.properties" in found["file mode"].found
    users = tmp_path / "users.properties"
    users.write_text("a=b\n")
    users.chmod(0o604)
    assert "users.properties" in examined(rest_basic_auth_users_file=str(users))["file mode"].found
    users.chmod(0o600)
    assert "file mode" not in examined(rest_basic_auth_users_file=str(users))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (check,) = examine(tmp_path / "none.properties")
    assert check.state is FAIL
    assert "none.properties" in check.found


def test_the_command_shows_them_with_the_machine_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "cluster_id", lambda *_, **__: None)
    file = tmp_path / "worker.properties"
    file.write_text("bootstrap.servers=127.0.0.1:9092\n")
    done = CliRunner().invoke(app, ["doctor", "--worker", str(file), "--bootstrap-servers", "127.0.0.1:9", "--json"])
    assert '"connector.allowed.hosts"' in done.output
    assert '"Python"' in done.output
