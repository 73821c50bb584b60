"""Java plugins for tests, and a worker that has them.

They are Apache's and Debezium's from their jars, and troublesome ones, compiled once.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from zipfile import ZipFile

import psutil
import pyspark
from confluent_kafka import Message

from headrace.plugins.interop.jvm.jars import fetch
from headrace.plugins.interop.jvm.java_compiler import compiled
from tests.integration import partitions
from tests.integration.databases import Database
from tests.integration.worker_process import Topic, WorkerProcess, eventually

_SOURCES: Final = Path(__file__).with_name("java_plugin")
TROUBLE: Final = "org.example.TroubleSource"
TALKING: Final = "org.example.TalkingSource"
TROUBLE_SINK: Final = "org.example.TroubleSink"
TROUBLE_TRANSFORM: Final = "org.example.TroubleTransform"
TROUBLE_PREDICATE: Final = "org.example.TroublePredicate"
TROUBLE_CONVERTER: Final = "org.example.TroubleConverter"
VAULT: Final = "org.example.Vault"
FILE_SOURCE: Final = "org.apache.kafka.connect.file.FileStreamSourceConnector"
FILE_SINK: Final = "org.apache.kafka.connect.file.FileStreamSinkConnector"
DEBEZIUM_SINK: Final = "io.debezium.connector.jdbc.JdbcSinkConnector"
FROM_JAR: Final = "org.apache.kafka.connect.transforms.ReplaceField$Value"
"""A transform that Headrace has, too, and that the worker of these tests runs from Apache's jar."""
TEXT: Final = {"value_converter": "org.apache.kafka.connect.storage.StringConverter"}
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_SERVICES: Final = {
    "org.apache.kafka.connect.source.SourceConnector": f"{TROUBLE}\n{TALKING}",
    "org.apache.kafka.connect.sink.SinkConnector": TROUBLE_SINK,
    "org.apache.kafka.connect.transforms.Transformation": TROUBLE_TRANSFORM,
    "org.apache.kafka.connect.transforms.predicates.Predicate": TROUBLE_PREDICATE,
    "org.apache.kafka.connect.storage.Converter": TROUBLE_CONVERTER,
    "org.apache.kafka.connect.storage.HeaderConverter": TROUBLE_CONVERTER,
    "org.apache.kafka.common.config.provider.ConfigProvider": VAULT,
}


@contextmanager
def java_worker(
    folder: Path, bootstrap: str, preferred: Sequence[str] = (FILE_SOURCE, FILE_SINK, FROM_JAR)
) -> Iterator[WorkerProcess]:
    """A worker with Java plugins on its plugin.path, which runs Apache's file connectors from their jar.

    `preferred`: what it runs from a jar although it has it itself.
    """
    settings = {
        "plugin.path": str(plugin_path(folder)),
        "java.plugins.preferred": ",".join(preferred),
        "task.restart.backoff.ms": "200",
        "config.providers": "vault",
        "config.providers.vault.class": VAULT,
        "config.providers.vault.param.prefix": f"{folder}/",
        "preview.timeout.ms": "120000",
        "java.host.heap": "300m",
        "java.host.options": "-Dheadrace.test='two words'",
    }
    with WorkerProcess(folder / "worker", bootstrap, settings=settings) as worker:
        yield worker.wait_ready(180)


def hosts(worker: WorkerProcess) -> list[psutil.Process]:
    """The worker's Java hosts."""
    return [one for one in worker.family() if "headrace.connectors.java.host" in one.cmdline()]


def messages(topic: Topic, count: int, name: str | None = None) -> list[Message]:
    """So many records, from the first on, of the topic, or of another one of this name."""
    found: list[Message] = []

    def so_many() -> bool:
        found[:] = partitions.messages(topic.bootstrap, name or topic.name)
        return len(found) >= count

    eventually(so_many, 240, lambda: found)
    return found[:count]


def plugin_path(folder: Path) -> Path:
    """A folder for `plugin.path` with Apache's file connectors and transforms, and the troublesome plugins.

    Of these there are the versions 7.1 and 7.8, which are the same.
    """
    jars = {jar.name.rpartition("-")[0]: jar for jar in fetch("connect")}
    (folder / "plugins" / "trouble").mkdir(parents=True)
    (folder / "plugins" / "file").mkdir()
    shutil.copy(jars["connect-file"], folder / "plugins" / "file")
    shutil.copy(jars["connect-transforms"], folder / "plugins")
    known = [jars[name] for name in ("connect-api", "connect-json", "kafka-clients", "slf4j-api")]
    trouble = folder / "plugins" / "trouble" / "trouble-7.8.jar"
    shutil.copyfile(compiled("test-plugins", _SOURCES, known), trouble)
    with ZipFile(trouble, "a") as jar:
        for java_type, class_name in _SERVICES.items():
            jar.writestr(f"META-INF/services/{java_type}", f"{class_name}\n")
    shutil.copy(trouble, folder / "plugins" / "trouble-7.1.jar")
    return folder / "plugins"


def debezium(folder: Path) -> Path:
    """A folder for `plugin.path` with Debezium's PostgreSQL connector."""
    return of_jars(folder, "debezium-postgres")


def debezium_config(database: Database, prefix: str) -> dict[str, str]:
    """Of Debezium's PostgreSQL connector, for the table `orders`; without its name."""
    url = database.url
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(url.port),
        "database.user": str(url.username),
        "database.password": str(url.password),
        "database.dbname": str(url.database),
        "plugin.name": "pgoutput",
        "slot.name": "headrace",
        # A task that dropped its slot as it stops would take along what was changed before the next one starts.
        "slot.drop.on.stop": "false",
        "publication.autocreate.mode": "filtered",
        "table.include.list": "public.orders",
        "topic.prefix": prefix,
        "poll.interval.ms": "50",
    }


def debezium_mariadb(folder: Path) -> Path:
    """A folder for `plugin.path` with Debezium's MariaDB connector."""
    return of_jars(folder, "debezium-mariadb")


def debezium_sink(folder: Path) -> Path:
    """A folder for `plugin.path` with Debezium's JDBC sink."""
    return _of_archive(folder / "plugins", "debezium")


def debezium_of_all_times(folder: Path) -> Path:
    """A folder for `plugin.path` with Debezium's PostgreSQL connector in 1.9, 2.7 and 3.5."""
    for jar_set in ("debezium-1", "debezium-2"):
        (found,) = _of_archive(folder / jar_set, jar_set).iterdir()
        found.rename(_made(folder / "plugins") / jar_set)
    return of_jars(folder, "debezium-postgres")


def _of_archive(target: Path, jar_set: str) -> Path:
    (archive,) = fetch(jar_set)
    with tarfile.open(archive) as tar:
        tar.extractall(_made(target), filter="data")
    return target


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def iceberg(folder: Path) -> Path:
    """A folder for `plugin.path` with Iceberg's sink, and Hadoop's client, which Spark has, too."""
    plugins = of_jars(folder, "iceberg")
    for jar in Path(pyspark.__file__).with_name("jars").glob("hadoop-client-*.jar"):
        (plugins / "iceberg" / jar.name).symlink_to(jar)
    return plugins


def of_jars(folder: Path, jar_set: str) -> Path:
    (folder / "plugins" / jar_set).mkdir(parents=True)
    for jar in fetch(jar_set):
        shutil.copy(jar, folder / "plugins" / jar_set)
    return folder / "plugins"
