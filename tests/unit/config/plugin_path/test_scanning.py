"""Java plugins are found by manifests and by classes, as each discovery mode says; what is broken is left out."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from headrace.config.plugin_path import DiscoveryMode, scan
from headrace.config.plugin_path.kinds import TYPES, UNUSED, is_shared
from headrace.config.problems import ConfigError
from headrace.plugins.interop.discovery import KINDS
from tests.made_jars import (
    ABSTRACT,
    CONVERTER,
    HEADER_CONVERTER,
    PROVIDER,
    PUBLIC,
    SINK,
    SOURCE,
    TRANSFORMATION,
    class_file,
    jar,
)

ONE = "org.example.OneSource"


def found(path: Path, mode: DiscoveryMode = DiscoveryMode.HYBRID_WARN) -> list[tuple[str, str]]:
    return [(plugin.kind, plugin.class_name) for plugin in scan([str(path)], mode)]


def test_the_kinds_are_those_of_discovery_in_its_order() -> None:
    assert [kind for kind in TYPES if kind not in UNUSED] == list(KINDS)


def test_a_manifest_names_plugins_whose_class_may_lie_in_another_jar(tmp_path: Path) -> None:
    jar(tmp_path / "p" / "classes.jar", {ONE: class_file(ONE, "org.example.Unknown")})
    jar(tmp_path / "p" / "manifest.jar", services={SOURCE: f"# ours\n{ONE}  # the one\n\n{ONE}\n"})
    (plugin,) = scan([str(tmp_path)], DiscoveryMode.SERVICE_LOAD)
    assert (plugin.class_name, plugin.kind, plugin.location) == (ONE, "source", tmp_path / "p")
    assert plugin.jars == (tmp_path / "p" / "classes.jar", tmp_path / "p" / "manifest.jar")


def test_classes_are_found_by_what_they_extend_over_all_jars(tmp_path: Path) -> None:
    abstract = "org.example.shared.AbstractSource"
    jar(tmp_path / "p" / "a.jar", {ONE: class_file(ONE, abstract)})
    jar(tmp_path / "p" / "b.jar", {abstract: class_file(abstract, SOURCE, flags=PUBLIC | ABSTRACT)})
    both = "org.example.Both"
    jar(tmp_path / "q.jar", {both: class_file(both, implements=[CONVERTER, HEADER_CONVERTER])})
    nested, own = "org.example.Mask$Value", "org.example.OwnJson"
    cast = "org.apache.kafka.connect.transforms.Cast"
    own_json = class_file(own, "org.apache.kafka.connect.json.JsonConverter")
    jar(tmp_path / "r.jar", {nested: class_file(nested, cast), own: own_json})
    assert found(tmp_path, DiscoveryMode.SERVICE_LOAD) == []
    assert found(tmp_path, DiscoveryMode.ONLY_SCAN) == [
        ("source", ONE),
        ("converter", both),
        ("header_converter", both),
        ("transformation", nested),
        ("converter", own),
        ("header_converter", own),
    ]


def test_a_plugin_is_a_public_class_of_its_own_that_can_be_made(tmp_path: Path) -> None:
    inner, hidden, copy = "org.A$Inner", "org.Hidden", "org.apache.kafka.connect.runtime.MockSource"
    classes = {
        inner: class_file(inner, SINK, constructor="(Lorg/A;)V"),
        hidden: class_file(hidden, SINK, flags=0),
        copy: class_file(copy, SOURCE),
    }
    jar(tmp_path / "p.jar", classes, {SINK: f"{inner}\n{hidden}", SOURCE: copy})
    for mode in DiscoveryMode:
        assert found(tmp_path, mode) == []


def test_config_providers_are_found_by_their_manifests_only(tmp_path: Path) -> None:
    with_manifest, without = "org.Vault", "org.Other"
    classes = {name: class_file(name, implements=[PROVIDER]) for name in (with_manifest, without)}
    jar(tmp_path / "p.jar", classes, {PROVIDER: with_manifest})
    for mode in DiscoveryMode:
        assert found(tmp_path, mode) == [("config_provider", with_manifest)]


def test_a_folder_of_class_files_is_scanned(tmp_path: Path) -> None:
    file = tmp_path / "tree" / "org" / "example" / "OneSource.class"
    file.parent.mkdir(parents=True)
    file.write_bytes(class_file(ONE, SOURCE))
    manifest = tmp_path / "tree" / "META-INF" / "services" / SOURCE
    assert found(tmp_path) == [("source", ONE)]
    assert found(tmp_path, DiscoveryMode.SERVICE_LOAD) == []
    manifest.parent.mkdir(parents=True)
    manifest.write_text(ONE)
    assert found(tmp_path, DiscoveryMode.SERVICE_LOAD) == [("source", ONE)]


def test_missing_manifests_are_told_or_refused_as_the_mode_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jar(tmp_path / "p.jar", {ONE: class_file(ONE, SOURCE)})
    with caplog.at_level(logging.WARNING):
        assert found(tmp_path, DiscoveryMode.ONLY_SCAN) == [("source", ONE)]
        assert caplog.text == ""
        assert found(tmp_path, DiscoveryMode.HYBRID_WARN) == [("source", ONE)]
    assert ONE in caplog.text
    assert "connect-plugin-path sync-manifests" in caplog.text
    with pytest.raises(ConfigError, match=ONE):
        scan([str(tmp_path)], DiscoveryMode.HYBRID_FAIL)


@pytest.mark.parametrize("content", [b"", b"no jar", b"PK\5\6" + bytes(10), b"x" * 80_000])
def test_a_broken_jar_is_told_and_the_others_are_read(
    content: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jar(tmp_path / "p" / "good.jar", {ONE: class_file(ONE, SOURCE)}, {SOURCE: ONE})
    (tmp_path / "p" / "bad.jar").write_bytes(content)
    for mode in DiscoveryMode:
        assert found(tmp_path, mode) == [("source", ONE)]
    assert f"{tmp_path / 'p' / 'bad.jar'} is no jar" in caplog.text


def test_damaged_entries_are_told_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    other = "org.example.Other"
    path = jar(tmp_path / "p.jar", {ONE: class_file(ONE, SOURCE), other: class_file(other, SOURCE)}, {SOURCE: other})
    data = bytearray(path.read_bytes())
    data[60:80] = bytes(20)  # within the first class
    path.write_bytes(data)
    assert found(tmp_path) == [("source", other)]
    assert "org/example/OneSource.class" in caplog.text


def test_a_manifest_of_what_is_not_there_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    jar(tmp_path / "p.jar", services={SOURCE: "org.example.Gone\nnot a class\n"})
    assert found(tmp_path) == []
    assert "declares the source plugin org.example.Gone, whose class is in no jar beside it" in caplog.text
    assert "names 'not a class', which is no class" in caplog.text


@pytest.mark.parametrize(
    ("name", "files", "version"),
    [
        ("any", {"META-INF/maven/org/x/pom.properties": "#made\ngroupId=org\nversion=1.2\n"}, "1.2"),
        (
            "x-core",
            {
                "META-INF/maven/org/x-core/pom.properties": "version=3.0",
                "META-INF/maven/org/y/pom.properties": "version=1.2",
            },
            "3.0",
        ),
        (
            "any",
            {"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\r\nImplementation-Version: 4.5.Final\r\n"},
            "4.5.Final",
        ),
        (
            "any",
            {"META-INF/MANIFEST.MF": "Implementation-Version: 1.0-wra\n pped\n\nName: a\nImplementation-Version: 9"},
            "1.0-wrapped",
        ),
        ("connect-file-4.3.1", {}, "4.3.1"),
        ("plain", {}, None),
    ],
)
def test_the_version_is_told_by_what_lies_beside_the_class(
    name: str, files: dict[str, str], version: str | None, tmp_path: Path
) -> None:
    jar(tmp_path / f"{name}.jar", {ONE: class_file(ONE, SOURCE)}, {SOURCE: ONE}, files)
    assert [plugin.version for plugin in scan([str(tmp_path)])] == [version]


def test_confluents_manifest_tells_the_version_of_a_folder(tmp_path: Path) -> None:
    jar(tmp_path / "a-b" / "lib" / "b.jar", {ONE: class_file(ONE, SOURCE)})
    (tmp_path / "a-b" / "manifest.json").write_text('{"name": "b", "version": "10.1"}')
    assert [plugin.version for plugin in scan([str(tmp_path)])] == ["10.1"]


def test_hundreds_of_jars_with_manifests_take_less_than_a_second_of_processor(tmp_path: Path) -> None:
    classes = {f"org.example.C{n}": class_file(f"org.example.C{n}") for n in range(100)}
    first = jar(tmp_path / "p" / "0.jar", {**classes, ONE: class_file(ONE, SOURCE)}, {SOURCE: ONE})
    for n in range(1, 400):
        (tmp_path / "p" / f"{n}.jar").hardlink_to(first)
    before = time.process_time()
    assert found(tmp_path, DiscoveryMode.SERVICE_LOAD) == [("source", ONE)]
    assert time.process_time() - before < 1


@pytest.mark.parametrize(
    ("name", "shared"),
    [
        (SOURCE, True),
        (TRANSFORMATION, True),
        ("java.util.List", True),
        ("org.slf4j.Logger", True),
        ("org.apache.kafka.common.config.ConfigDef", True),
        ("org.apache.kafka.connect.transforms.Cast$Value", False),
        ("org.apache.kafka.connect.json.JsonConverter", False),
        ("org.apache.kafka.connect.storage.StringConverter", False),
        ("org.apache.kafka.common.config.provider.FileConfigProvider", False),
        ("io.debezium.connector.postgresql.PostgresConnector", False),
    ],
)
def test_connects_own_classes_are_shared_and_its_plugins_are_not(name: str, shared: bool) -> None:
    assert is_shared(name) is shared
