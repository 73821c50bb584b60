"""Private names of other people's packages stand in one module for each, `HOMES`; each breach is named.

An attribute that begins with one underscore has to be one of ours: of `self`, one that some class of ours has; of
another object, one that is defined in the same file. Modules, classes of the JVM and layouts of memory are known by
`INTERNAL` and `SIGNS`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Final

import pytest

from tests import upgrade_check

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("config", "plugins", "connectors", "converters", "worker", "rest")

SPARK: Final = (
    "plugins/arrow_types.py",
    "plugins/interop/catalyst/spark_internals.py",
    "worker/engine/spark_internals.py",
)
LIBRDKAFKA: Final = ("plugins/interop/kafka/librdkafka_internals.py",)
KAFKA_PYTHON: Final = ("plugins/interop/kafka/kafka_python_internals.py",)
CONNECT: Final = ("connectors/java/host/connect_internals.py",)
HOMES: Final = (*SPARK, *LIBRDKAFKA, *KAFKA_PYTHON, *CONNECT)

PUBLIC: Final = frozenset({"_asdict", "_exit", "_fields", "_replace"})
"""Of named tuples, and of `os`; the errors of `KafkaError` are no secret either."""


def _names(text: str) -> Set[str]:
    return set(text.split())


ELSEWHERE: Final[Mapping[str, Set[str]]] = {
    "connectors/hdfs/stores/webhdfs.py": _names(
        "_Request _create _delete _get_file_status _list_page _mkdirs _open _rename _request _session"
    ),
    "connectors/jdbc/dialects/mariadb/columns.py": {"_result"},
    "connectors/jdbc/dialects/mariadb/dialect.py": {"_sock"},
    "plugins/interop/http/gated.py": {"_network_backend", "_pool"},
}
"""Packages with private names in one module only: hdfs, PyMySQL, httpcore."""

INTERNAL: Final[Mapping[str, tuple[str, ...]]] = {
    "pyspark.errors.exceptions": SPARK,
    "pyspark.java_gateway": SPARK,
    "pyspark.sql.classic": SPARK,
    "pyspark.sql.pandas": SPARK,
    "pyspark.testing": SPARK,
    "confluent_kafka.cimpl": LIBRDKAFKA,
    "kafka.coordinator": KAFKA_PYTHON,
    "kafka.net": KAFKA_PYTHON,
    "kafka.protocol.data_container": KAFKA_PYTHON,
    "kafka.protocol.parser": KAFKA_PYTHON,
    "kafka.protocol.schemas": KAFKA_PYTHON,
    "_jpype": (),
}
"""Modules that are no interface, and who imports them."""
SIGNS: Final[Mapping[str, tuple[str, ...]]] = {
    r"\borg\.apache\.(?:spark|arrow)\.\w": SPARK,
    r"PythonUtils|MODULE\$|_PYSPARK_|\bsessionState\b|internalCreateDataFrame": SPARK,
    r"ctypes\.(?:Structure|Union)|__basicsize__|\.from_address\(": LIBRDKAFKA,
    r"connect\.runtime\.isolation|metrics\.internals|PluginMetricsImpl": CONNECT,
}
"""Classes of the JVM and layouts of memory, and who names them."""


def modules() -> dict[str, str]:
    """The text of each module of the product, by its path."""
    files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    return {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}


def nodes_of(text: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(text)))


def defined(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that a module, or a class in it, has of its own."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_own(node.value):
            found.add(node.attr)
    return found


def breaches(path: str, text: str, nodes: Iterable[ast.AST], here: Set[str], ours: Set[str]) -> Iterator[str]:
    """The names that a module should not use; `here`: those that it defines; `ours`: those that any of ours does."""
    others = ELSEWHERE.get(path, set())
    for node in nodes:
        for name, is_own in _private(node):
            if path not in HOMES and name not in (ours if is_own else here) and name not in others:
                yield f"{path}:{getattr(node, 'lineno', '?')}: {name} is private to somebody else"
        for module in _modules(node):
            homes = next((homes for known, homes in INTERNAL.items() if f"{module}.".startswith(f"{known}.")), None)
            is_private = homes is not None or ("._" in module and module.rpartition(".")[2] not in others)
            if is_private and path not in (HOMES if homes is None else homes):
                yield f"{path}:{getattr(node, 'lineno', '?')}: {module} is no interface"
    for sign, homes in SIGNS.items():
        if path not in homes and (met := re.search(sign, text)):
            yield f"{path}:{text.count(chr(10), 0, met.start()) + 1}: {met[0]} belongs to {', '.join(homes)}"


def _private(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """A private name that the node uses, and if it is an attribute of `self`."""
    name, owner = "", None
    if isinstance(node, ast.Attribute):
        name, owner = node.attr, node.value
        if name in PUBLIC or (isinstance(owner, ast.Name) and owner.id == "KafkaError"):
            return
    elif isinstance(node, ast.keyword):
        name = node.arg or ""
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "setattr"):
        second = node.args[1] if len(node.args) > 1 else None
        name = second.value if isinstance(second, ast.Constant) and isinstance(second.value, str) else ""
        owner = node.args[0]
    if re.match(r"_(?!_|headrace)", name):
        yield name, owner is not None and _is_own(owner)


def _is_own(owner: ast.expr) -> bool:
    is_super = isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super"
    return is_super or (isinstance(owner, ast.Name) and owner.id in ("self", "cls"))


def _modules(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("headrace"):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_nobody_else_knows_a_private_name() -> None:
    read = {path: (text, nodes_of(text)) for path, text in modules().items()}
    defines = {path: defined(nodes) for path, (_, nodes) in read.items()}
    ours = set().union(*defines.values())
    assert not [
        found for path, (text, nodes) in read.items() for found in breaches(path, text, nodes, defines[path], ours)
    ]


def test_each_home_is_there_and_says_which_versions_it_was_seen_in() -> None:
    for home in HOMES:
        said = ast.get_docstring(ast.parse((ROOT / home).read_text(encoding="utf-8"))) or ""
        assert re.search(r"Seen in [\w -]+ \d+\.\d+", said), home


def test_what_is_run_with_new_versions_is_there() -> None:
    assert [one for one in upgrade_check.TESTS if not (ROOT / one).exists()] == []


@pytest.mark.parametrize(
    "text",
    [
        "session._jvm.java",
        "getattr(error, '_origin', None)",
        "SparkConf(_jvm=jvm)",
        "self._sock_of_theirs.send(b'')",
        "super()._process_response(1)",
        "from kafka.net.manager import KafkaConnectionManager",
        "from pyspark import java_gateway",
        "from confluent_kafka.admin._config import ConfigEntry",
        "import _jpype",
        "jvm.org.apache.spark.sql.catalyst",
        'NAME = "org.apache.spark.unsafe.types.UTF8String"',
        'getattr(found, "MODULE$")',
        "class P(ctypes.Structure): pass",
        'LOADER = "org.apache.kafka.connect.runtime.isolation.PluginClassLoader"',
    ],
)
def test_a_breach_is_seen(text: str) -> None:
    assert list(breaches("worker/engine/lane.py", text, nodes_of(text), set(), {"_jvm"})), text


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def f(self, other):\n        self._x = other._x",
        "self._jvm.headrace()",
        "KafkaError._TIMED_OUT",
        "os._exit(0)",
        "labels._replace(a=1)",
        'NAME = "org.apache.kafka.connect.json.JsonConverter"',
    ],
)
def test_what_is_ours_or_public_is_none(text: str) -> None:
    here = defined(nodes_of(text))
    assert not list(breaches("worker/engine/lane.py", text, nodes_of(text), here, {"_jvm", *here}))
