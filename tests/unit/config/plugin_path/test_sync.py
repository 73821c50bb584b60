"""Manifests are written where Apache writes them: into the jar, into a jar of their own, or into the folder."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from headrace.config.plugin_path.scanning import DiscoveryMode, LocationScan, scan_location
from headrace.config.plugin_path.sync import SHIM, NotWritableError, changes, write
from tests.made_jars import SINK, SOURCE, class_file, entry, jar

ONE, TWO = "org.example.One", "org.example.Two"
SERVICE = f"META-INF/services/{SOURCE}"


def scanned(location: Path) -> LocationScan:
    found = scan_location(location)
    assert found is not None
    return found


def sync(location: Path, *, keep_not_found: bool = False) -> list[Path]:
    planned = changes(scanned(location), keep_not_found=keep_not_found)
    for change in planned:
        write(change)
    return [change.path for change in planned]


def by_manifest(location: Path) -> list[str]:
    found = scan_location(location, DiscoveryMode.SERVICE_LOAD)
    return [plugin.class_name for plugin in found.plugins] if found else []


def test_a_single_jar_gets_its_manifests_and_keeps_the_rest(tmp_path: Path) -> None:
    classes = {ONE: class_file(ONE, SOURCE), TWO: class_file(TWO, SINK)}
    path = jar(tmp_path / "p.jar", classes, {SINK: f"# by hand\n{TWO}"}, {"notes.txt": "kept"})
    assert sync(path) == [path]
    assert by_manifest(path) == [TWO, ONE]
    with zipfile.ZipFile(path) as written:
        assert written.testzip() is None
        assert written.read("notes.txt") == b"kept"
        assert written.read(entry(ONE)) == classes[ONE]
        assert written.read(f"META-INF/services/{SINK}").startswith(b"# by hand")
    assert sync(path) == []
    assert list(tmp_path.iterdir()) == [path]


def test_a_plugin_of_several_jars_gets_a_jar_for_what_is_added(tmp_path: Path) -> None:
    first = jar(tmp_path / "p" / "a.jar", {ONE: class_file(ONE, SOURCE)})
    jar(tmp_path / "p" / "b.jar", {TWO: class_file(TWO, SINK)})
    before = first.read_bytes()
    assert sync(tmp_path / "p") == [tmp_path / "p" / SHIM]
    assert by_manifest(tmp_path / "p") == [TWO, ONE]
    assert first.read_bytes() == before
    first.unlink()
    (tmp_path / "p" / "b.jar").unlink()
    assert sync(tmp_path / "p") == [tmp_path / "p" / SHIM]
    assert list((tmp_path / "p").iterdir()) == []


def test_a_folder_of_class_files_gets_its_manifests(tmp_path: Path) -> None:
    file = tmp_path / "tree" / entry(ONE)
    file.parent.mkdir(parents=True)
    file.write_bytes(class_file(ONE, SOURCE))
    assert sync(tmp_path / "tree") == [tmp_path / "tree"]
    assert by_manifest(tmp_path / "tree") == [ONE]


def test_the_manifest_of_a_class_that_is_not_there_goes_unless_it_is_to_be_kept(tmp_path: Path) -> None:
    path = jar(tmp_path / "p.jar", {ONE: class_file(ONE, SOURCE)}, {SOURCE: f"{ONE}\n{TWO}"})
    assert changes(scanned(path), keep_not_found=True) == []
    (change,) = changes(scanned(path))
    assert (change.added, change.removed) == ([], [TWO])
    write(change)
    with zipfile.ZipFile(path) as written:
        assert written.read(SERVICE).decode().splitlines()[1:] == [ONE]


def test_what_cannot_be_written_is_refused_before_anything_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = jar(tmp_path / "p.jar", {ONE: class_file(ONE, SOURCE)})
    monkeypatch.setattr("headrace.config.plugin_path.sync.os.access", lambda path, mode: False)
    with pytest.raises(NotWritableError, match=f"{path} must be writable"):
        changes(scanned(path))


def test_a_folder_of_manifests_that_cannot_be_written_is_refused_before_anything_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, services = tmp_path / "tree" / entry(ONE), tmp_path / "tree" / "META-INF" / "services"
    for folder in (file.parent, services):
        folder.mkdir(parents=True)
    file.write_bytes(class_file(ONE, SOURCE))
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != services)
    with pytest.raises(NotWritableError, match=rf"{tmp_path / 'tree'} must be writable: {services} is not"):
        changes(scanned(tmp_path / "tree"))


def test_a_jar_keeps_its_mode_and_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = jar(tmp_path / "p.jar", {ONE: class_file(ONE, SOURCE)})
    path.chmod(0o640)
    given = []
    monkeypatch.setattr("os.chown", lambda path, user, group: given.append((user, group)))
    sync(path)
    after = path.stat()
    assert (given, after.st_mode & 0o777) == ([(after.st_uid, after.st_gid)], 0o640)


def test_a_link_stays_a_link_and_the_jar_that_it_leads_to_is_changed(tmp_path: Path) -> None:
    real = jar(tmp_path / "store" / "p-1.0.jar", {ONE: class_file(ONE, SOURCE)})
    (tmp_path / "path").mkdir()
    link = tmp_path / "path" / "p.jar"
    link.symlink_to(real)
    assert sync(link) == [link]
    assert link.is_symlink()
    assert by_manifest(real) == by_manifest(link) == [ONE]
    assert list(real.parent.iterdir()) == [real]


def test_a_folder_behind_a_link_gets_the_jar_of_manifests(tmp_path: Path) -> None:
    jar(tmp_path / "store" / "a.jar", {ONE: class_file(ONE, SOURCE)})
    link = tmp_path / "p"
    link.symlink_to(tmp_path / "store")
    jar(tmp_path / "store" / "b.jar", {TWO: class_file(TWO, SINK)})
    assert sync(link) == [link / SHIM]
    assert link.is_symlink()
    assert by_manifest(link) == [TWO, ONE]


def test_a_read_only_folder_behind_a_link_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = jar(tmp_path / "store" / "p-1.0.jar", {ONE: class_file(ONE, SOURCE)})
    link = tmp_path / "p.jar"
    link.symlink_to(real)
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != real.parent)
    with pytest.raises(NotWritableError, match=rf"{link} must be writable: {real.parent} is not.*hybrid_warn"):
        changes(scanned(link))
