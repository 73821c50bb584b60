"""The direction of imports between the rooms (DESIGN §1), read from the source with `ast`; each breach is named.

rest ──▶ worker ──▶ plugins ──▶ config
                      ▲
   connectors, converters (they import plugins and config, nothing else of ours)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MAY_IMPORT = {
    "config": {"config"},
    "plugins": {"plugins", "config"},
    "connectors": {"connectors", "plugins", "config"},
    "converters": {"converters", "plugins", "config"},
    "worker": {"worker", "plugins", "config"},
    "rest": {"rest", "worker", "plugins", "config"},
}

SPARK_HOMES = ("plugins/", "connectors/", "converters/")
# The control plane: what must answer while Spark starts, hangs or is gone. The worker's other files are data's.
WITHOUT_SPARK = {
    "worker/assignor.py",
    "worker/capabilities.py",
    "worker/child.py",
    "worker/cluster.py",
    "worker/commands.py",
    "worker/configured.py",
    "worker/connector.py",
    "worker/connector_doctor.py",
    "worker/container.py",
    "worker/decisions.py",
    "worker/dlq_cli.py",
    "worker/doctor.py",
    "worker/errors.py",
    "worker/failing.py",
    "worker/hidden.py",
    "worker/installed.py",
    "worker/jars.py",
    "worker/java_search.py",
    "worker/kafka_broker.py",
    "worker/kafka_files.py",
    "worker/local_tasks.py",
    "worker/logs.py",
    "worker/metrics.py",
    "worker/pipe_watch.py",
    "worker/quickstart.py",
    "worker/rebalances.py",
    "worker/registry_cli.py",
    "worker/registry_files.py",
    "worker/registry_server.py",
    "worker/server_process.py",
    "worker/starts.py",
    "worker/task_metrics.py",
    "worker/task_restarts.py",
    "worker/topics.py",
    "worker/turns.py",
    "worker/windows.py",
}
WITHOUT_SPARK_PREFIXES = ("worker/herder", "worker/standalone", "worker/group", "worker/offset", "worker/status")
HTTP_SERVER = {"fastapi", "pydantic", "starlette", "uvicorn"}
HTTP_CLIENT = {"httpx", "requests", "aiohttp", "urllib3"}
KAFKA_CLIENTS = {"confluent_kafka", "kafka", "aiokafka"}
DATABASES = {"sqlalchemy", "psycopg", "pymysql", "sqlite3"}
KAFKA_HOMES = ("worker/", "connectors/mirror/", "connectors/mirror.py")


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of all that is imported, wherever in the file; relative names begin with a dot."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "." * node.level + (node.module or "")
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def breach(path: str, name: str) -> str | None:
    """Why the file may not import this name; None when it may."""
    room, top = path.split("/")[0], name.split(".")[0]
    if name.startswith("."):
        return "is a relative import: write `from headrace.<room>`"
    if top in MAY_IMPORT:
        return f"is a bare import of a room: write `headrace.{top}`"
    if top == "headrace":
        target = name.partition(".")[2].split(".")[0]
        if target in MAY_IMPORT and target not in MAY_IMPORT[room]:
            return f"goes against the arrows: {room} imports only {', '.join(sorted(MAY_IMPORT[room]))}"
    if top in {"pyspark", "py4j"} and not _spark_at_home(path):
        return "brings Spark where it is not at home"
    if top in HTTP_SERVER and room != "rest":
        return "brings the web server, whose only home is rest/"
    if top in KAFKA_CLIENTS and not path.startswith(KAFKA_HOMES):
        return "brings a Kafka client, whose homes are worker/ and connectors/mirror/"
    if top in DATABASES and not path.startswith("connectors/jdbc/"):
        return "brings a database's client, whose home is connectors/jdbc/"
    if room == "config" and (top in HTTP_CLIENT or name.startswith(("http.", "urllib.request"))):
        return "brings HTTP into config/"
    return None


def _spark_at_home(path: str) -> bool:
    if path.startswith("worker/"):
        return path not in WITHOUT_SPARK and not path.startswith(WITHOUT_SPARK_PREFIXES)
    return path.startswith(SPARK_HOMES)


def breaches(root: Path) -> Iterator[str]:
    for room in MAY_IMPORT:
        for file in sorted((root / room).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            for line, name in imported(ast.parse(file.read_text(encoding="utf-8"), path)):
                if why := breach(path, name):
                    yield f"{path}:{line}: {name} {why}"


def test_the_imports_keep_the_direction_of_the_rooms() -> None:
    found = sorted(set(breaches(ROOT)))
    assert not found, "imports that break DESIGN §1:\n" + "\n".join(found)


def test_every_room_is_looked_at() -> None:
    for room in MAY_IMPORT:
        assert (ROOT / room / "__init__.py").is_file(), room
        assert (ROOT / "headrace" / room).is_symlink(), room


def test_the_list_of_files_without_spark_names_files_that_are_there() -> None:
    assert [path for path in sorted(WITHOUT_SPARK) if not (ROOT / path).is_file()] == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("config/a.py", "import headrace.plugins.schema"),
        ("config/a.py", "from headrace import worker"),
        ("config/a.py", "import httpx"),
        ("config/a.py", "def f():\n    from pyspark.sql import Column"),
        ("plugins/a.py", "from headrace.connectors.file import X"),
        ("plugins/transforms/a.py", "from headrace.worker.tasks import X"),
        ("plugins/a.py", "import confluent_kafka"),
        ("connectors/file.py", "from headrace.worker import tasks"),
        ("connectors/file.py", "from headrace.converters.json import X"),
        ("connectors/jdbc/a.py", "from kafka.coordinator import base"),
        ("connectors/file/a.py", "import sqlalchemy"),
        ("worker/a.py", "from psycopg import sql"),
        ("converters/a.py", "from headrace.connectors.file import X"),
        ("worker/a.py", "if TYPE_CHECKING:\n    from headrace.rest.app import App"),
        ("worker/a.py", "from headrace.connectors.file import X"),
        ("worker/a.py", "import fastapi"),
        ("worker/commands.py", "import pyspark"),
        ("worker/herder.py", "from pyspark.sql import SparkSession"),
        ("rest/a.py", "import pyspark"),
        ("rest/a.py", "import confluent_kafka"),
        ("rest/a.py", "import worker"),
        ("worker/a.py", "from plugins.schema import X"),
        ("worker/a.py", "from . import b"),
    ],
)
def test_a_breach_is_seen(path: str, source: str) -> None:
    assert [why for _, name in imported(ast.parse(source)) if (why := breach(path, name))]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("rest/app.py", "import fastapi\nfrom headrace.worker.herder import Herder\nfrom headrace import __version__"),
        ("worker/spark.py", "from pyspark.sql import SparkSession\nfrom headrace.plugins.records import Records"),
        ("worker/group.py", "from kafka.coordinator import base"),
        ("connectors/mirror/source.py", "import confluent_kafka"),
        ("connectors/jdbc/contract/url.py", "import sqlalchemy"),
        ("connectors/file.py", "from headrace.plugins import SourceTask\nfrom headrace.config.settings import Setting"),
        ("converters/json.py", "from pyspark.sql import functions\nfrom headrace.converters.bytes import X"),
    ],
)
def test_what_the_design_allows_is_no_breach(path: str, source: str) -> None:
    assert [why for _, name in imported(ast.parse(source)) if (why := breach(path, name))] == []
