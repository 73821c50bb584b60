"""The files that a connector's settings may name: regular ones, of a bounded size, within the allowed paths."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.config.connector.validator import ConnectorValidator
from headrace.config.files import MOST_BYTES, read_file
from headrace.config.problems import ConfigError
from headrace.config.worker.allowed_files import check_files, file_problems
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.interop.discovery import Plugins
from tests.unit.config.connector.test_clients import worker

KEYS = (
    "consumer.override.ssl.truststore.location",
    "producer.override.ssl.keystore.location",
    "source.cluster.ssl.truststore.location",
    "value.converter.schema.registry.ssl.keystore.location",
    "value.converter.apicurio.registry.tls.truststore.location",
    "admin.override.sasl.oauthbearer.assertion.private.key.file",
    "connect.hdfs.keytab",
    "connection.sslrootcert",
    "connection.trustCertificateKeyStoreUrl",
    "database.ssl.keystore",
    "database.sslkey",
)
IN_TEXTS = {
    "consumer.override.sasl.jaas.config": 'com.sun.security.auth.module.Krb5LoginModule required keyTab="{}";',
    "admin.override.sasl.jaas.config": "x.OAuthBearerLoginModule required ssl.truststore.location={};",
    "connection.url": "jdbc:postgresql://db/x?sslmode=verify-full&sslrootcert={}&a=b",
}


class Files:
    """A folder that connectors may read, with files in it and beside it."""

    def __init__(self, folder: Path) -> None:
        self.inside, self.key = folder / "files", folder / "files" / "worker.pem"
        self.inside.mkdir()
        self.store, self.outside = self.inside / "store.pem", folder / "outside.pem"
        for file in (self.store, self.outside, self.key):
            file.write_text("-----BEGIN CERTIFICATE-----\n")
        self.link, self.pipe, self.large = (self.inside / name for name in ("link", "pipe", "large"))
        self.link.symlink_to(self.outside)
        os.mkfifo(self.pipe)
        with open(self.large, "wb") as file:
            file.truncate(MOST_BYTES + 1)

    @property
    def refused(self) -> list[Path]:
        """Paths that are refused even within the allowed ones."""
        return [self.pipe, self.large, self.inside, self.inside / "absent", Path("/dev/zero")]

    def worker(self) -> WorkerConfig:
        return worker(
            **{"file.allowed.paths": str(self.inside), "listeners.https.ssl.keystore.location": str(self.key)}
        )


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def configs(path: Path) -> list[dict[str, str | None]]:
    return [*({key: str(path)} for key in KEYS), *({key: text.format(path)} for key, text in IN_TEXTS.items())]


def answers(path: Path, settings: Mapping[str, object]) -> set[str]:
    return {problem.message for config in configs(path) for problem in file_problems(config, settings)}


def test_files_that_are_read_whole_are_regular_and_bounded_wherever_a_setting_names_them(files: Files) -> None:
    assert not answers(files.store, {})
    assert not answers(files.outside, {})
    for path in files.refused:
        for config in configs(path):
            (problem,) = file_problems(config, {})
            assert problem.key in config
            with pytest.raises(ConfigError, match="names no regular file"):
                check_files(config, {})
    assert len(set.union(*(answers(path, {}) for path in files.refused))) == 1, "one answer for all"


def test_files_lie_within_the_allowed_paths_and_are_none_of_the_workers_own(files: Files) -> None:
    settings = files.worker().for_plugins()
    assert not answers(files.store, settings)
    outside = [files.outside, files.link, files.key, Path("/etc/passwd"), Path("/absent"), Path("/proc/self/environ")]
    assert len(set.union(*(answers(path, settings) for path in [*outside, *files.refused]))) == 1, "one answer for all"
    for path in outside:
        assert len([one for config in configs(path) for one in file_problems(config, settings)]) == len(configs(path))
    # Files of data may be of any size, and not there yet.
    assert not file_problems({"file": str(files.inside / "absent"), "name": "x"}, settings)
    assert file_problems({"file": str(files.outside)}, settings)
    # Settings that name no file of ours: values for records, inline certificates.
    pem = "-----BEGIN CERTIFICATE-----"
    assert not file_problems({"transforms.x.file": "/etc/passwd", "connection.serverSslCert": pem}, settings)


@pytest.mark.parametrize("key", [*KEYS[:2], "file"])
def test_validation_refuses_them_and_opens_none(files: Files, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.config.kafka.client_security.read_file", lambda _: pytest.fail("it is opened"))
    validate = ConnectorValidator(Plugins.discover(), files.worker())
    name = "FileStreamSource" if key.startswith(("file", "producer")) else "FileStreamSink"
    config = {"connector.class": name, "name": "x", "topic": "t", "topics": "t", "file": str(files.inside / "f")}
    secured = dict.fromkeys(("consumer.override.security.protocol", "producer.override.security.protocol"), "SSL")
    found = validate({**config, **secured, key: str(files.outside)})
    assert [problem.key for problem in found.problems] == [key]
    assert "file.allowed.paths" in (found.refusal() or "")


def test_what_is_read_is_bounded(files: Files) -> None:
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path in files.refused:
        with pytest.raises(OSError):  # noqa: PT011 - each another
            read_file(path)
    assert read_file(files.store) == files.store.read_bytes()
    assert time.monotonic() - began < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
