from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from headrace.config.connector.enrichment import PluginClass
from headrace.config.connector.java_stage import split_chain
from headrace.config.connector.plugin_versions import of_version
from headrace.plugins.interop.discovery import (
    CONNECTORS,
    LISTED,
    BrokenPluginError,
    JarEntry,
    PluginEntry,
    Plugins,
    UnknownPluginError,
)
from tests import made_jars

CODE = """
from headrace.config.settings import Settings
from headrace.plugins.contracts import Connector, SinkTask, Transform

class MyTask(SinkTask):
    def start(self, config, context): ...
    def columns(self, records): return []
    def writer(self, attempt): ...

class MySink(Connector):
    settings = Settings()
    version = "1.2"
    task_class = "org.example.MySinkTask"
    task = MyTask

    def task_configs(self, max_tasks): return []

class NoSettings(MySink):
    settings = None

class NoVersion(MySink):
    version = None

class NoTask(MySink):
    task = MySink

class HalfTask(SinkTask):
    def writer(self, attempt): ...

class HalfSink(MySink):
    task = HalfTask

class Change(Transform):
    settings = Settings()
    version = "1"

    def apply(self, records): return records

class Stray:
    pass

THING = 3
"""
ENTRIES = """
[headrace.sink]
org.example.MySinkConnector = {module}:MySink
org.example.BrokenSinkConnector = {module}_missing:MySink
org.example.ThingSinkConnector = {module}:THING

[headrace.transformation]
org.example.Change$Key = {module}:Change
org.example.Change$Value = {module}:Change

[other.group]
x = {module}:MySink
"""
METADATA = "Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n"


@pytest.fixture(autouse=True)
def path_restored() -> Iterator[None]:
    before = list(sys.path)
    yield
    sys.path[:] = before


def files(module: str, entries: str = ENTRIES) -> dict[str, str]:
    return {
        f"{module}.py": CODE,
        f"{module}-1.0.dist-info/METADATA": METADATA.format(module=module),
        f"{module}-1.0.dist-info/entry_points.txt": entries.format(module=module),
    }


def folder(place: Path, module: str) -> Path:
    for name, text in files(module).items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


def archive(path: Path, module: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as zipped:
        for name, text in files(module).items():
            zipped.writestr(name, text)
    return path


def plugin(
    class_name: str, kind: str = "sink", location: str = "installed", value: str = "collections:OrderedDict"
) -> PluginEntry:
    return PluginEntry(class_name, kind, EntryPoint(class_name, value, f"headrace.{kind}"), location)


@pytest.mark.parametrize(
    ("element", "place"),
    [
        ("a folder with a distribution", "."),
        ("a folder of such folders", "mine"),
        ("a folder with an environment", "venv/lib/python3.11/site-packages"),
        ("a folder of wheels", "mine-1.0-py3-none-any.whl"),
        ("a folder of zips", "mine.zip"),
    ],
)
def test_plugins_on_the_path_are_found_and_loaded(tmp_path: Path, element: str, place: str) -> None:
    module = "found_" + "".join(char for char in element if char.isalpha())
    archived = place.endswith((".whl", ".zip"))
    (archive if archived else folder)(tmp_path / place, module)
    plugins = Plugins.discover([str(tmp_path)])
    found = plugins.find("sink", "MySink")
    assert found.class_name == "org.example.MySinkConnector"
    assert found.location == str(tmp_path / place)
    assert found.load().__name__ == "MySink"
    assert found.version == "1.2"
    assert plugins.paths == [str(tmp_path / place)]
    assert sys.path[-1] == str(tmp_path / place), "plugins come after all that is installed"


def test_nothing_is_imported_before_it_is_used(tmp_path: Path) -> None:
    folder(tmp_path, "lazy_plugin")
    plugins = Plugins.discover([str(tmp_path)])
    assert plugins.full_name("MySink") == "org.example.MySinkConnector"
    assert "lazy_plugin" not in sys.modules
    plugins.find("sink", "MySink").load()
    assert "lazy_plugin" in sys.modules


def test_a_missing_element_is_said_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Plugins.discover([str(tmp_path / "nowhere")])
    assert "nowhere, which does not exist" in caplog.text


@pytest.mark.parametrize("name", ["BrokenSink", "ThingSink"])
def test_a_broken_plugin_is_named_and_harms_no_other(tmp_path: Path, name: str) -> None:
    folder(tmp_path, "half_broken")
    plugins = Plugins.discover([str(tmp_path)])
    with pytest.raises(BrokenPluginError, match=rf"org\.example\.{name}Connector .*{tmp_path}.* cannot be loaded"):
        plugins.find("sink", name).load()
    assert plugins.find("sink", "MySink").load().__name__ == "MySink"
    assert plugins.find("sink", "MySink").version == "1.2"
    assert plugins.find("sink", name).version is None


@pytest.mark.parametrize(
    ("declared", "kind", "why"),
    [
        ("MyTask", "sink", "is a task: name the Connector whose attribute `task` it is"),
        ("Stray", "sink", "is no subclass of Connector, as a plugin of kind sink has to be"),
        ("Change", "predicate", "is no subclass of Predicate"),
        ("Stray", "config_provider", "is no subclass of ConfigProvider"),
        ("NoSettings", "sink", "has no attribute `settings` of type Settings"),
        ("NoVersion", "sink", "has no attribute `version`, a str"),
        ("NoTask", "sink", "has no attribute `task` that is a subclass of SinkTask"),
        ("MySink", "source", "has no attribute `task` that is a subclass of SourceTask"),
        ("HalfSink", "sink", "has a task HalfTask that does not define columns, start"),
        ("THING", "sink", "is not a class"),
    ],
)
def test_what_a_class_does_not_declare_is_named(tmp_path: Path, declared: str, kind: str, why: str) -> None:
    module = f"declares_{declared}_{kind}"
    folder(tmp_path, module)
    Plugins.discover([str(tmp_path)])
    with pytest.raises(BrokenPluginError, match=rf"org\.x\.Y .*cannot be loaded: {module}:{declared} {why}"):
        plugin("org.x.Y", kind, value=f"{module}:{declared}").load()


def test_names_that_a_plugin_answers_to() -> None:
    plugins = Plugins(
        [
            plugin("org.apache.kafka.connect.file.FileStreamSinkConnector"),
            plugin("org.apache.kafka.connect.json.JsonConverter", "converter"),
            plugin("org.apache.kafka.connect.json.JsonConverter", "header_converter"),
            plugin("org.x.Only$Value", "transformation"),
            plugin("org.x.RecordIsTombstone", "predicate"),
        ]
    )
    for name in ("org.apache.kafka.connect.file.FileStreamSinkConnector", "FileStreamSinkConnector", "FileStreamSink"):
        assert plugins.find("sink", name).class_name == "org.apache.kafka.connect.file.FileStreamSinkConnector"
        assert plugins.find("connector", name).kind == "sink"
    assert plugins.full_name("Json") == "org.apache.kafka.connect.json.JsonConverter"
    assert plugins.find("header_converter", "JsonConverter").kind == "header_converter"
    assert plugins.full_name("Value") == "org.x.Only$Value"
    assert plugins.full_name("RecordIsTombstone") == "org.x.RecordIsTombstone"
    assert plugins.full_name("Connector") is None
    assert plugins.full_name("") is None


def test_an_alias_of_several_classes_is_dropped() -> None:
    plugins = Plugins(
        [
            plugin("a.MySinkConnector"),
            plugin("b.MySinkConnector", value="collections:Counter"),
            plugin("a.X$Value", "transformation"),
            plugin("a.Y$Value", "transformation", value="collections:Counter"),
        ]
    )
    assert plugins.full_name("Value") is None
    assert plugins.full_name("a.X$Value") == "a.X$Value"
    with pytest.raises(UnknownPluginError) as caught:
        plugins.find("connector", "MySink")
    assert caught.value.problems[0].message == (
        "More than one connector matches alias MySink. Please use full package and class name instead. "
        "Classes found: a.MySinkConnector, b.MySinkConnector"
    )
    assert plugins.find("sink", "b.MySinkConnector").class_name == "b.MySinkConnector"


def test_unknown_names_are_refused_in_connects_words() -> None:
    plugins = Plugins([plugin("a.MySinkConnector"), plugin("a.JsonConverter", "converter")])
    with pytest.raises(UnknownPluginError, match="Failed to find any class that implements Connector and which name"):
        plugins.find("connector", "os.path")
    with pytest.raises(UnknownPluginError, match=r"matches JsonConverter\. There are: MySinkConnector\.$"):
        plugins.find("connector", "JsonConverter")
    with pytest.raises(UnknownPluginError, match=r"Did you mean a\.MySinkConnector\? There are: MySinkConnector\.$"):
        plugins.find("connector", "MySnk")
    with pytest.raises(UnknownPluginError, match=r"matches  MySink\. It has blanks around it: take them away\."):
        plugins.find("connector", " MySink")
    with pytest.raises(UnknownPluginError, match=r"Class a\.B could not be found\."):
        plugins.find("converter", "a.B")
    with pytest.raises(UnknownPluginError, match=r"Unknown plugin nope\."):
        plugins.named("nope")
    assert plugins.named("Json").kind == "converter"


def test_what_is_installed_comes_first(caplog: pytest.LogCaptureFixture) -> None:
    plugins = Plugins([plugin("a.MySinkConnector"), plugin("a.MySinkConnector", location="/plugins")])
    assert plugins.find("sink", "MySink").location == "installed"
    assert "The plugin a.MySinkConnector is installed and lies in /plugins, too; the first one is used" in caplog.text


def test_one_line_tells_of_all_that_lie_in_two_places(caplog: pytest.LogCaptureFixture) -> None:
    Plugins([plugin("a.A"), plugin("a.B"), plugin("a.A", location="/p"), plugin("a.B", location="/p")])
    assert caplog.messages == ["The plugins a.A, a.B are installed and lie in /p, too; the first ones are used"]


def test_what_is_installed_may_be_on_the_path_too(caplog: pytest.LogCaptureFixture) -> None:
    entry = next(iter(entry_points(group="headrace.sink")))
    assert entry.dist is not None
    place = str(entry.dist.locate_file(""))
    Plugins([PluginEntry(entry.name, "sink", entry), PluginEntry(entry.name, "sink", entry, place)])
    assert not caplog.messages


def java_plugin(path: Path, of_type: str, name: str) -> None:
    """A jar with a class of this type, and its manifest."""
    parents = (of_type,) if of_type in (made_jars.SOURCE, made_jars.SINK) else ("java.lang.Object", [of_type])
    made_jars.jar(path, {name: made_jars.class_file(name, *parents)}, {of_type: name})


def test_java_plugins_are_listed(tmp_path: Path) -> None:
    java_plugin(tmp_path / "mine" / "a.jar", made_jars.SOURCE, "org.x.MySourceConnector")
    java_plugin(tmp_path / "mine" / "b.jar", made_jars.CONVERTER, "org.x.MyConverter")
    java_plugin(tmp_path / "mine" / "c.jar", made_jars.SINK, "org.x.MySink")
    found = Plugins.discover([str(tmp_path)])
    entry = found.find("connector", "MySource")
    assert isinstance(entry, JarEntry)
    assert (entry.class_name, entry.kind, entry.location) == ("org.x.MySourceConnector", "source", entry.source)
    assert [one.name for one in entry.jar.jars] == ["a.jar", "b.jar", "c.jar"]
    assert isinstance(found.find("sink", "MySink"), JarEntry)
    assert isinstance(found.find("converter", "My"), JarEntry)


def test_a_python_plugin_knows_the_java_class_of_its_name(tmp_path: Path) -> None:
    name = "io.debezium.transforms.ExtractNewRecordState"
    java_plugin(tmp_path / "debezium" / "a.jar", made_jars.TRANSFORMATION, name)
    java_plugin(tmp_path / "mine.jar", made_jars.TRANSFORMATION, "org.x.Mine")
    found = Plugins.discover([str(tmp_path)])
    ours = found.find("transformation", name)
    assert not ours.from_jar
    assert ours.in_java is not None
    assert ours.in_java.location == tmp_path / "debezium"
    assert not Plugins.discover([]).find("transformation", name).has_java_class
    assert found.find("transformation", "org.x.Mine").from_jar


def test_connects_own_classes_need_no_jar() -> None:
    found = Plugins.shipped().of_kind("transformation", "predicate", "header_converter")
    assert [one.class_name for one in found if not one.has_java_class] == [
        "headrace.transforms.Python",
        "headrace.transforms.Sql",
        "io.confluent.connect.transforms.Drop$Key",
        "io.confluent.connect.transforms.Drop$Value",
        "io.confluent.connect.transforms.ExtractTopic$Header",
        "io.confluent.connect.transforms.ExtractTopic$Key",
        "io.confluent.connect.transforms.ExtractTopic$Value",
        "io.confluent.connect.transforms.Filter$Key",
        "io.confluent.connect.transforms.Filter$Value",
        "io.confluent.connect.transforms.GzipDecompress$Key",
        "io.confluent.connect.transforms.GzipDecompress$Value",
        "io.confluent.connect.transforms.MessageTimestampRouter",
        "io.confluent.connect.transforms.ReplaceField$Key",
        "io.confluent.connect.transforms.ReplaceField$Value",
        "io.confluent.connect.transforms.TombstoneHandler",
        "io.debezium.transforms.ByLogicalTableRouter",
        "io.debezium.transforms.ExtractNewRecordState",
        "io.debezium.transforms.TimezoneConverter",
        "io.debezium.transforms.ToLogicalTopicRouter",
        "io.debezium.transforms.outbox.EventRouter",
        "io.tabular.iceberg.connect.transforms.CopyValue",
        "io.tabular.iceberg.connect.transforms.DebeziumTransform",
        "io.tabular.iceberg.connect.transforms.DmsTransform",
        "io.tabular.iceberg.connect.transforms.KafkaMetadataTransform",
        "org.apache.iceberg.connect.transforms.CopyValue",
        "org.apache.iceberg.connect.transforms.DebeziumTransform",
        "org.apache.iceberg.connect.transforms.DmsTransform",
        "org.apache.iceberg.connect.transforms.KafkaMetadataTransform",
        "io.confluent.connect.replicator.util.ByteArrayConverter",
    ]
    assert {one.in_java.jars for one in found if one.in_java is not None} == {()}


def test_a_java_plugin_goes_before_the_python_one_of_its_name_where_it_is_preferred(tmp_path: Path) -> None:
    name = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    java_plugin(tmp_path / "file.jar", made_jars.SOURCE, name)
    assert not isinstance(Plugins.discover([str(tmp_path)]).find("source", name), JarEntry)
    assert isinstance(Plugins.discover([str(tmp_path)], [name]).find("source", name), JarEntry)


def versions_of(found: Plugins, kind: str, name: str) -> list[str | None]:
    return [one.version for one in found.find(kind, name).versions]


def test_a_java_plugin_has_several_versions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for place, version in (("a", "1.9"), ("b", "1.10"), ("c", "2.0.Beta1"), ("d", "1.10")):
        java_plugin(tmp_path / place / f"mine-{version}.jar", made_jars.SOURCE, "org.x.MySource")
    found = Plugins.discover([str(tmp_path)])
    assert versions_of(found, "source", "MySource") == ["1.9", "1.10", "2.0.Beta1"]
    assert [one.version for one in found.of_kind("source") if one.class_name == "org.x.MySource"] == ["2.0.Beta1"]
    assert [one.version for one in found.all_versions("source") if one.class_name == "org.x.MySource"] == [
        "1.9",
        "1.10",
        "2.0.Beta1",
    ]
    assert [text for text in caplog.messages if "org.x.MySource" in text] == [
        f"The plugin org.x.MySource is in {tmp_path / 'c'} and lies in {tmp_path / 'd'}, too; the first one is used"
    ]

    def chosen(version: str) -> str:
        entry = found.chosen("connector", "MySource", {"connector.plugin.version": version})
        return f"{entry.version} in {Path(entry.location).name}"

    assert [chosen(text) for text in ("[1,2.0.beta1)", "1.9", "latest")] == ["1.10 in b", "1.9 in a", "2.0.Beta1 in c"]
    with pytest.raises(UnknownPluginError, match=r"range \[3,\), available versions: \[1\.9, 1\.10, 2\.0\.Beta1\]"):
        chosen("[3,)")


def test_a_python_plugin_knows_the_latest_java_class_of_its_name(tmp_path: Path) -> None:
    name = "io.debezium.transforms.ExtractNewRecordState"
    for version in ("3.5.0.Final", "3.6.0.Final"):
        java_plugin(tmp_path / version / f"d-{version}.jar", made_jars.TRANSFORMATION, name)
    ours = Plugins.discover([str(tmp_path)]).find("transformation", name)
    assert ours.in_java is not None
    assert (ours.in_java.version, len(ours.versions)) == ("3.6.0.Final", 1)


PARTS = {
    "transformation": (made_jars.TRANSFORMATION, "org.x.MyTransform"),
    "predicate": (made_jars.PREDICATE, "org.x.MyPredicate"),
    "converter": (made_jars.CONVERTER, "org.x.MyConverter"),
    "header_converter": (made_jars.HEADER_CONVERTER, "org.x.MyHeaders"),
}
FOLDERS = {"a": "2.0", "b": "1.0", "c": "2.0", "d": "3.0"}


def three_connectors(tmp_path: Path) -> Plugins:
    """Folders with a connector each and the same parts, some in the same version; `d` has parts alone."""
    for place, version in FOLDERS.items():
        if place != "d":
            java_plugin(tmp_path / place / f"own-{version}.jar", made_jars.SOURCE, f"org.{place}.MySource")
        for kind, (of_type, name) in PARTS.items():
            java_plugin(tmp_path / place / f"{kind}-{version}.jar", of_type, name)
        java_plugin(tmp_path / place / f"same-{version}.jar", made_jars.TRANSFORMATION, UNWRAP)
    return Plugins.discover([str(tmp_path)])


UNWRAP = "io.debezium.transforms.ExtractNewRecordState"


@pytest.mark.parametrize("kind", PARTS)
def test_a_connector_uses_the_parts_of_its_own_folder_and_others_the_newest(kind: str, tmp_path: Path) -> None:
    found, name = three_connectors(tmp_path), PARTS[kind][1]

    def location(plugins: Plugins, version: str | None = None) -> str:
        part = of_version(plugins.find(kind, name), version)
        assert part is not None
        return Path(part.location).name

    for place in "abc":
        seen = found.beside(found.find("source", f"org.{place}.MySource"))
        assert location(seen) == location(seen, "latest") == place
        assert location(seen, "[2.0,3.0)") == ("c" if place == "c" else "a")
        assert location(seen, "1.0") == "b"
        assert seen.find(kind, name).version == FOLDERS[place]
        assert versions_of(seen, kind, name) == ["1.0", "2.0", "3.0"]
        unwrap = seen.find("transformation", UNWRAP)
        assert (unwrap.from_jar, unwrap.in_java and unwrap.in_java.location) == (False, tmp_path / place)
    assert location(found) == location(found.beside(found.find("source", "FileStreamSource"))) == "d"


def test_each_part_of_a_chain_comes_from_where_its_config_says(tmp_path: Path) -> None:
    found = three_connectors(tmp_path)
    connector = found.find("source", "org.b.MySource")
    names = {kind: name for kind, (_, name) in PARTS.items()}
    config: dict[str, str | None] = {
        "transforms": "t,u,v",
        "transforms.t.type": names["transformation"],
        "transforms.t.predicate": "p",
        "transforms.u.type": UNWRAP,
        "transforms.v.type": names["transformation"],
        "transforms.v.plugin.version": "2.0",
        "predicates": "p",
        "predicates.p.type": names["predicate"],
        "value.converter": names["converter"],
        "header.converter": names["header_converter"],
    }
    split = split_chain(connector, config, found, {"key.converter": names["converter"]})
    first, second, third = split.in_java
    assert first.predicate is not None
    assert "".join(map(java_home, (first.transform, first.predicate, second.transform, third.transform))) == "bbba"
    assert {side: java_home(one) for side, one in split.converters} == {"value": "b", "header": "b", "key": "d"}


def java_home(part: PluginClass) -> str:
    assert isinstance(part, PluginEntry)
    assert part.in_java is not None
    return part.in_java.location.name


def test_parts_that_lie_in_several_folders_are_nothing_to_warn_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    three_connectors(tmp_path)
    assert not [text for text in caplog.messages if "org.x" in text]


def test_a_slip_in_a_class_name_is_answered_with_the_class_that_is_meant() -> None:
    plugins = Plugins([plugin("a.MySinkConnector"), plugin("a.JsonConverter", "converter")])
    with pytest.raises(UnknownPluginError, match=r"Did you mean a\.MySinkConnector\?"):
        plugins.find("connector", "b.MySinkConector")
    with pytest.raises(UnknownPluginError, match=r"found\. Did you mean a\.JsonConverter\? There are: JsonConverter\."):
        plugins.find("converter", "JsonConvertor")


def test_plugins_are_listed_as_connect_sorts_them() -> None:
    names = {"source": "b.S", "converter": "a.C", "sink": "c.K", "predicate": "a.P", "transformation": "z.T"}
    plugins = Plugins([*(plugin(name, kind) for kind, name in names.items()), plugin("a.K")])
    found = [(entry.class_name, entry.kind) for entry in plugins.of_kind(*CONNECTORS)]
    assert found == [("a.K", "sink"), ("c.K", "sink"), ("b.S", "source")]
    everything = [entry.kind for entry in plugins.of_kind(*LISTED)]
    assert everything == ["sink", "sink", "source", "transformation", "predicate", "converter"]


def test_the_short_name_of_two_vendors_is_that_of_confluents() -> None:
    plugins = Plugins.discover()
    assert plugins.find("converter", "AvroConverter").class_name == "io.confluent.connect.avro.AvroConverter"
    full = "io.apicurio.registry.utils.converter.AvroConverter"
    assert plugins.find("converter", full).class_name == full


def test_a_short_name_stands_for_apaches_class_if_others_name_the_same() -> None:
    found = Plugins.shipped().find("converter", "ByteArrayConverter")
    assert found.class_name == "org.apache.kafka.connect.converters.ByteArrayConverter"


def test_one_implementation_under_the_names_of_several_vendors_keeps_its_short_name() -> None:
    plugins = Plugins([plugin("org.b.MySinkConnector"), plugin("org.a.MySinkConnector")])
    assert plugins.find("connector", "MySink").class_name == "org.a.MySinkConnector"
    assert plugins.find("connector", "org.b.MySinkConnector").class_name == "org.b.MySinkConnector"
