"""Java sinks for tests: Apache's from its jar, and a troublesome one, compiled by javac."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path
from zipfile import ZipFile

from headrace.worker.machine.jars import fetch

_SOURCE = Path(__file__).with_name("java_plugin") / "TroubleSink.java"
TROUBLE_SINK = "org.example.TroubleSink"
DEBEZIUM_SINK = "io.debezium.connector.jdbc.JdbcSinkConnector"
FILE_SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


def sink_plugin_path(folder: Path) -> Path:
    """A folder for `plugin.path` with both."""
    jars = {jar.name.rpartition("-")[0]: jar for jar in fetch("connect")}
    classes = folder / "classes"
    (folder / "plugins" / "trouble").mkdir(parents=True)
    (folder / "plugins" / "file").mkdir()
    shutil.copy(jars["connect-file"], folder / "plugins" / "file")
    known = [str(jars[name]) for name in ("connect-api", "connect-json", "kafka-clients")]
    subprocess.run(["javac", "-cp", ":".join(known), "-d", str(classes), str(_SOURCE)], check=True)
    with ZipFile(folder / "plugins" / "trouble" / "trouble.jar", "w") as jar:
        jar.writestr("META-INF/services/org.apache.kafka.connect.sink.SinkConnector", f"{TROUBLE_SINK}\n")
        for file in classes.rglob("*.class"):
            jar.write(file, file.relative_to(classes))
    return folder / "plugins"


def debezium_sink(folder: Path) -> Path:
    """A folder for `plugin.path` with Debezium's JDBC sink."""
    (archive,) = fetch("debezium")
    (folder / "plugins").mkdir(parents=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "plugins", filter="data")
    return folder / "plugins"
