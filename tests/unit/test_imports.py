"""The direction of imports between the rooms, read from the source with `ast`; each breach is named.

rest ──▶ worker ──▶ plugins ──▶ config
                      ▲
   connectors, converters (they import plugins and config, nothing else of ours)

Inside a room, `ROOMS` says what each of its rooms may import. The control plane answers while Spark starts, hangs or
is gone, so importing it loads no Spark, directly or through another module.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

MAY_IMPORT = {
    "config": {"config"},
    "plugins": {"plugins", "config"},
    "connectors": {"connectors", "plugins", "config"},
    "converters": {"converters", "plugins", "config"},
    "worker": {"worker", "plugins", "config"},
    "rest": {"rest", "worker", "config"},
}

_OF_WORKER: Mapping[str, set[str]] = {
    "": set(),
    "logging": {""},
    "machine": {""},
    "kafka": {""},
    "engine": {"", "logging", "machine"},
    "group": {"", "machine"},
    "embedded": {"", "machine"},
    "storage": {"", "machine", "kafka"},
    "deadletters": {"", "logging", "kafka"},
    "pipeline": {"", "logging", "machine", "kafka", "engine", "deadletters"},
    "hosting": {"", "logging", "machine", "kafka", "storage"},
    "tasks": {"", "logging", "kafka", "engine", "storage", "deadletters", "pipeline", "hosting"},
    "preview": {"", "logging", "kafka", "engine", "storage", "deadletters", "pipeline", "hosting", "tasks"},
    "herder": {"", "logging", "kafka", "group", "storage", "deadletters", "hosting", "tasks", "preview"},
    "telemetry": {"", "tasks", "herder"},
    "cli": {"", "logging", "machine", "kafka", "embedded", "deadletters", "herder"},
    "testing": {"", "machine", "embedded", "engine"},
    "process": {
        "",
        "logging",
        "machine",
        "kafka",
        "engine",
        "group",
        "storage",
        "hosting",
        "tasks",
        "preview",
        "herder",
        "telemetry",
    },
}
ROOMS: Mapping[str, Mapping[str, set[str]]] = {
    "config": {
        "": set(),
        "plugin_path": {""},
        "kafka": {""},
        "worker": {"", "kafka"},
        "connector": {"", "kafka", "worker"},
        "lint": {"", "kafka", "worker", "connector"},
    },
    "plugins": {
        "": set(),
        "interop": {""},
        "record_api": {"", "interop"},
        "testkit": {"", "record_api"},
        "transforms": {"", "interop"},
    },
    "plugins/interop": {
        "": set(),
        "catalyst": {""},
        "kafka": {""},
        "conversion": {"", "kafka"},
        "java": {"", "catalyst"},
        "jvm": {""},
        "json": {"", "catalyst", "java"},
        "avro": {"", "catalyst", "java"},
        "http": {""},
        "protobuf": {"", "catalyst"},
        "formats": {"", "catalyst", "java", "json", "avro"},
    },
    "converters": {
        "": set(),
        "json": {""},
        "registry": set(),
        "avro": {"", "registry"},
        "json_schema": {"", "json", "registry"},
        "protobuf": {"", "registry"},
        "apicurio": {"", "registry", "avro", "json", "protobuf"},
    },
    "connectors": {
        "": set(),
        "elasticsearch": set(),
        "datagen": set(),
        "file": set(),
        "hdfs": set(),
        "java": set(),
        "jdbc": set(),
        "lake": set(),
        "logs": {"file"},
        "mirror": set(),
        "http": set(),
        "singer": set(),
        "spool": set(),
    },
    "connectors/datagen": {"quickstarts": set(), "": {"quickstarts"}},
    "connectors/hdfs": {
        "": set(),
        "partitioners": {""},
        "stores": {""},
        "hive": {"", "stores"},
        "sink": {"", "partitioners", "stores", "hive"},
        "source": {"", "stores"},
    },
    "connectors/http": {"": set(), "sink": {""}, "source": {""}},
    "connectors/java": {"": set(), "host": {""}},
    "connectors/jdbc": {
        "": set(),
        "contract": set(),
        "dialects": {"contract"},
        "database": {"contract"},
        "source": {"contract", "database"},
        "sink": {"contract", "database"},
    },
    "connectors/lake": {"": set(), "iceberg": {""}, "delta": {""}},
    "connectors/lake/iceberg": {"": set(), "files": {""}, "sink": {"", "files"}, "source": {""}},
    "connectors/logs": {"": set(), "files": {""}, "syslog": {""}},
    "connectors/mirror": {
        "": set(),
        "copy": {""},
        "checkpoint": {""},
        "source": {"", "copy"},
        "replicator": {"", "checkpoint", "source"},
        "verify": {"", "source"},
    },
    "worker": _OF_WORKER,
    "rest": {
        "http": set(),
        "security": {"http"},
        "routes": {"http", "security"},
        "console": {"http", "security"},
        "": {"http", "security", "routes", "console"},
    },
}
"""Each room's inner rooms ("" is the room itself), from the lowest floor up, each with those that it may import besides
itself."""

DOOR = 3_000
"""The most lines of plugins/ itself: what an author of plugins may have to read. He uses the test kit without reading
more of it than its first page, so it is not counted."""

FRONT = "plugins/__init__.py"
"""It passes on names of the rooms behind it."""

BY_THE_DOOR = ("connectors/file/", "connectors/singer/")
PAST_THE_DOOR = ("headrace.plugins.interop.", "headrace.plugins.transforms.")

WITHOUT_SPARK = ("machine", "group", "embedded", "storage", "hosting", "herder")
"""Rooms of worker/ that are the control plane, with the modules of worker/ itself: importing them loads no Spark."""

SPARK_HOMES = ("plugins/", "connectors/", "converters/", "worker/")
HTTP_SERVER = {"fastapi", "pydantic", "starlette", "uvicorn"}
HTTP_CLIENT = {"httpx", "requests", "aiohttp", "urllib3"}
KAFKA_CLIENTS = {"confluent_kafka", "kafka", "aiokafka"}
DATABASES = {"sqlalchemy", "psycopg", "pymysql", "sqlite3"}
KAFKA_HOMES = ("worker/", "connectors/mirror/", "plugins/interop/kafka/")


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and dotted name of each import, anywhere in the file; relative names begin with a dot."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield node.lineno, "." * node.level + (node.module or "")
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def breach(path: str, name: str) -> str | None:
    """The reason that the file may not import this name; None if it may."""
    room, top = path.split("/")[0], name.split(".")[0]
    if name.startswith("."):
        return "is a relative import: write `from headrace.<room>`"
    if top in MAY_IMPORT:
        return f"is a bare import of a room: write `headrace.{top}`"
    if top == "headrace":
        target = name.partition(".")[2].split(".")[0]
        if target in MAY_IMPORT and target not in MAY_IMPORT[room]:
            return f"goes against the arrows: {room} imports only {', '.join(sorted(MAY_IMPORT[room]))}"
        if why := _breach_inside(path, name):
            return why
        if path.startswith(BY_THE_DOOR) and name.startswith(PAST_THE_DOOR):
            return "goes past the authors' door, which is all that the connectors of files and Singer use"
    if top in {"pyspark", "py4j"} and not path.startswith(SPARK_HOMES):
        return "brings Spark where it is not at home"
    if top in {"pyspark", "py4j"} and room == "worker" and inner_room(path) in ("", *WITHOUT_SPARK):
        return "brings Spark into the control plane"
    if top in HTTP_SERVER and room != "rest":
        return "brings the web server, whose only home is rest/"
    if top in KAFKA_CLIENTS and not path.startswith(KAFKA_HOMES):
        return "brings a Kafka client, whose homes are worker/, connectors/mirror/ and plugins/interop/kafka/"
    if top in DATABASES and not path.startswith("connectors/jdbc/"):
        return "brings a database's client, whose home is connectors/jdbc/"
    if room == "config" and (top in HTTP_CLIENT or name.startswith(("http.", "urllib.request"))):
        return "brings HTTP into config/"
    return None


def inner_room(path: str, room: str = "") -> str:
    """The inner room of a room (of its first folder) that a file lies in; "" for the room itself."""
    inside = path.removeprefix(f"{room or path.split('/')[0]}/").split("/")[:-1]
    return inside[0] if inside else ""


def _breach_inside(path: str, name: str) -> str | None:
    if path == FRONT:
        return None
    for room, floors in ROOMS.items():
        package = f"headrace.{room.replace('/', '.')}."
        if not (path.startswith(f"{room}/") and name.startswith(package)):
            continue
        first = name.removeprefix(package).split(".")[0]
        source, target = inner_room(path, room), first if first in floors else ""
        if source not in floors:
            return f"stands in {room}/{source}, a room that ROOMS does not list"
        if target not in floors[source] | {source}:
            shown = ", ".join(sorted(f"{room}/{one}" for one in floors[source])) or f"no other room of {room}/"
            return f"goes against the floors: {room}/{source} imports only {shown}"
    return None


def breaches(root: Path) -> Iterator[str]:
    for room in MAY_IMPORT:
        for file in sorted((root / room).rglob("*.py")):
            path = file.relative_to(root).as_posix()
            for line, name in imported(ast.parse(file.read_text(encoding="utf-8"), path)):
                if why := breach(path, name):
                    yield f"{path}:{line}: {name} {why}"


def loaded(body: list[ast.stmt]) -> Iterator[str]:
    """The dotted names that importing a module with this body loads: not those for type checkers or in functions."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.If):
            checking = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
            yield from loaded(node.orelse if checking else [*node.body, *node.orelse])
        elif isinstance(node, ast.Try | ast.With | ast.ClassDef):
            yield from loaded(node.body)


def modules(root: Path) -> dict[str, set[str]]:
    """Each module of ours by its dotted name, with what importing it loads: ours, and `pyspark` for Spark."""
    files = {
        "headrace."
        + file.relative_to(root).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__"): file
        for room in MAY_IMPORT
        for file in (root / room).rglob("*.py")
    }
    found: dict[str, set[str]] = {}
    for module, file in files.items():
        names = set(loaded(ast.parse(file.read_text(encoding="utf-8")).body))
        ours = {one for name in names for one in (name, name.rpartition(".")[0]) if one in files}
        packages = {module.rsplit(".", up)[0] for up in range(1, module.count("."))} & files.keys()
        spark = {"pyspark"} if any(name.split(".")[0] in {"pyspark", "py4j"} for name in names) else set()
        found[module] = ours | packages | spark
    return found


def _module(path: Path) -> str:
    return f"headrace.{'.'.join(path.with_suffix('').parts)}".removesuffix(".__init__")


def way_to_spark(module: str, graph: Mapping[str, set[str]]) -> list[str]:
    """The shortest chain of imports from the module to Spark; empty where there is none."""
    ways, seen = deque([[module]]), {module}
    while ways:
        way = ways.popleft()
        for one in sorted(graph.get(way[-1], set()) - seen):
            if one == "pyspark":
                return [*way, one]
            seen.add(one)
            ways.append([*way, one])
    return []


def test_the_imports_keep_the_direction_of_the_rooms() -> None:
    found = sorted(set(breaches(ROOT)))
    assert not found, "imports that break the rooms (docs/design/architecture.md#the-rooms):\n" + "\n".join(found)


def test_importing_the_control_plane_loads_no_spark() -> None:
    graph = modules(ROOT)
    rooms = tuple(f"headrace.worker.{room}." for room in WITHOUT_SPARK)
    plane = [name for name in graph if name.startswith(rooms) or (f"{name}.".count(".") == 3 and ".worker." in name)]
    found = [" -> ".join(way) for name in sorted(plane) if (way := way_to_spark(name, graph))]
    assert not found, "the control plane must answer without Spark, but importing it loads it:\n" + "\n".join(found)


def test_every_room_is_looked_at() -> None:
    for room in MAY_IMPORT:
        assert (ROOT / room / "__init__.py").is_file(), room
        assert (ROOT / "headrace" / room).is_symlink(), room
        assert room in ROOMS, room
    for room, inner in ROOMS.items():
        assert {path.parent.name for path in (ROOT / room).glob("*/__init__.py")} == inner.keys() - {""}, room
    assert [path.name for path in (ROOT / "connectors/jdbc").glob("*.py")] == ["__init__.py"]


def test_each_inner_room_says_what_it_holds() -> None:
    files = [ROOT / room / one / "__init__.py" for room, inner in ROOMS.items() for one in inner if one]
    assert [file for file in files if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))] == []


def test_the_authors_door_is_read_in_an_afternoon() -> None:
    files = (ROOT / "plugins").glob("*.py")
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= DOOR


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_is_reached_from_a_room_that_it_reaches(room: str) -> None:
    floors: list[str] = []
    for one, allowed in ROOMS[room].items():
        assert allowed <= set(floors), f"{room}/{one} may import a room that stands above it"
        floors.append(one)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("config/a.py", "import headrace.plugins.schema"),
        ("config/a.py", "from headrace import worker"),
        ("config/a.py", "import httpx"),
        ("config/a.py", "from headrace.config.kafka import client_keys"),
        ("config/worker/a.py", "from headrace.config.connector.config import converter_config"),
        ("config/a.py", "def f():\n    from pyspark.sql import Column"),
        ("plugins/a.py", "from headrace.connectors.file import X"),
        ("plugins/transforms/a.py", "from headrace.worker.tasks import X"),
        ("plugins/a.py", "import confluent_kafka"),
        ("connectors/file.py", "from headrace.worker import tasks"),
        ("connectors/file.py", "from headrace.converters.json.converter import X"),
        ("connectors/jdbc/a.py", "from kafka.coordinator import base"),
        ("connectors/file/a.py", "import sqlalchemy"),
        ("plugins/a.py", "from headrace.plugins.interop.java import numbers"),
        ("plugins/interop/a.py", "from headrace.plugins.transforms.cast import X"),
        ("plugins/interop/catalyst/a.py", "import headrace.plugins.interop.java.numbers"),
        ("rest/http/a.py", "from headrace.rest.security.access import Needs"),
        ("rest/security/a.py", "from headrace.rest import app"),
        ("connectors/file/a.py", "from headrace.plugins.interop.java.numbers import X"),
        ("connectors/singer/a.py", "from headrace.plugins.transforms.cast import X"),
        ("connectors/hdfs/stores/a.py", "from headrace.connectors.file.errors import FileError"),
        ("plugins/interop/formats/a.py", "from headrace.connectors.hdfs.sink.writer import X"),
        ("connectors/java/a.py", "from headrace.connectors.java.host.jvm import X"),
        ("connectors/jdbc/contract/a.py", "if TYPE_CHECKING:\n    from headrace.connectors.jdbc.dialects import X"),
        ("connectors/jdbc/source/a.py", "import headrace.connectors.jdbc.sink.staging"),
        ("connectors/mirror/copy/a.py", "from headrace.connectors.mirror.source.task import X"),
        ("converters/registry/a.py", "from headrace.converters.settings import X"),
        ("worker/kafka/a.py", "from psycopg import sql"),
        ("converters/a.py", "from headrace.connectors.file import X"),
        ("worker/kafka/a.py", "if TYPE_CHECKING:\n    from headrace.rest.app import App"),
        ("worker/tasks/a.py", "from headrace.connectors.file import X"),
        ("worker/herder/a.py", "import fastapi"),
        ("worker/hosting/a.py", "import pyspark"),
        ("worker/model.py", "from headrace.worker.kafka.admin import answered"),
        ("worker/kafka/a.py", "from headrace.worker.storage import statuses"),
        ("worker/pipeline/a.py", "def f():\n    from headrace.worker.tasks.task import Task"),
        ("worker/attic/a.py", "from headrace.worker.model import State"),
        ("rest/a.py", "import pyspark"),
        ("rest/a.py", "import confluent_kafka"),
        ("rest/a.py", "import worker"),
        ("worker/herder/a.py", "from plugins.schema import X"),
        ("worker/herder/a.py", "from . import b"),
    ],
)
def test_a_breach_is_seen(path: str, source: str) -> None:
    assert [why for _, name in imported(ast.parse(source)) if (why := breach(path, name))]


@pytest.mark.parametrize(
    ("path", "source"),
    [
        (
            "rest/app.py",
            "import fastapi\nfrom headrace.worker.herder.api import Herder\nfrom headrace import __version__",
        ),
        ("worker/engine/a.py", "from pyspark.sql import SparkSession\nfrom headrace.plugins.records import Records"),
        ("worker/group/a.py", "from kafka.coordinator import base\nfrom headrace.worker.model import TaskId"),
        ("worker/tasks/a.py", "from headrace.worker.logging import logs\nfrom headrace.worker.pipeline import job"),
        ("connectors/mirror/source.py", "import confluent_kafka"),
        ("connectors/jdbc/contract/url.py", "import sqlalchemy"),
        ("connectors/jdbc/source/a.py", "from headrace.connectors.jdbc.database import sql_states"),
        ("connectors/hdfs/sink/a.py", "from headrace.plugins.interop.avro.tree import X"),
        ("rest/app.py", "from headrace.rest.routes import admin"),
        ("connectors/file.py", "from headrace.plugins import SourceTask\nfrom headrace.config.settings import Setting"),
        ("converters/json/converter.py", "from pyspark.sql import functions\nfrom headrace.converters.bytes import X"),
    ],
)
def test_what_the_design_allows_is_no_breach(path: str, source: str) -> None:
    assert [why for _, name in imported(ast.parse(source)) if (why := breach(path, name))] == []


def test_a_way_to_spark_is_found_through_other_modules() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"pyspark"}, "d": set()}
    assert way_to_spark("a", graph) == ["a", "b", "c", "pyspark"]
    assert way_to_spark("d", graph) == []
    source = "from x import y\nif TYPE_CHECKING:\n    import pyspark\ndef f():\n    import pyspark\n"
    assert list(loaded(ast.parse(source).body)) == ["x.y"]
