"""A worker's plugins, and the providers that its properties name."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.config.worker.config import WorkerConfig
from headrace.plugins.interop.discovery import Plugins
from headrace.worker.herder.plugins import worker_config
from tests.made_jars import SOURCE, class_file, jar


def test_plugins_are_warned_of_once_though_providers_are_needed_before_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    jar(tmp_path / "p.jar", {"org.example.OneSource": class_file("org.example.OneSource", SOURCE)})
    monkeypatch.setenv("SERVERS", "localhost:9092")
    props = {
        "plugin.path": str(tmp_path),
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "bootstrap.servers": "${env:SERVERS}",
        **{f"{side}.converter": "org.apache.kafka.connect.json.JsonConverter" for side in ("key", "value")},
        "offset.storage.file.filename": str(tmp_path / "offsets"),
    }
    config = worker_config(props, WorkerConfig.standalone)
    assert config["bootstrap.servers"] == ["localhost:9092"]
    Plugins.of_worker(config.values)
    assert sum("org.example.OneSource" in one.getMessage() for one in caplog.records) == 1
