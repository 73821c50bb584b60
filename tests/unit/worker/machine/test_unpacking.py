"""An archive is unpacked whole inside of its folder, or refused with the entry that is at fault."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from headrace.worker.machine.unpacking import UnsafeArchiveError, has_jars, unpack


def tar(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tape:
        for member in members:
            tape.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.size, made.linkname = kind, size, link
    return made


def zipped(path: Path, *names: str, mode: int = 0o100644, content: bytes = b"x") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in names:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(info, content)
    return path


@pytest.fixture
def into(tmp_path: Path) -> Path:
    (tmp_path / "into").mkdir()
    return tmp_path / "into"


def below(folder: Path) -> list[str]:
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*") if one.is_file())


def test_a_single_top_folder_is_left_out(tmp_path: Path, into: Path) -> None:
    archive = tar(tmp_path / "a.tgz", member("one", tarfile.DIRTYPE), member("one/lib/a.jar", size=3))
    assert has_jars(archive)
    unpack(archive, into)
    assert below(into) == ["lib/a.jar"]


def test_a_zip_keeps_its_folders(tmp_path: Path, into: Path) -> None:
    unpack(zipped(tmp_path / "a.zip", "lib/a.jar", "manifest.json"), into)
    assert below(into) == ["lib/a.jar", "manifest.json"]


@pytest.mark.parametrize("name", ["../out.jar", "/out.jar", "a/../../out.jar", "..\\out.jar", "C:/out.jar"])
def test_a_path_out_of_the_folder_is_refused(name: str, tmp_path: Path, into: Path) -> None:
    for archive in (zipped(tmp_path / "a.zip", name), tar(tmp_path / "a.tar.gz", member(name))):
        with pytest.raises(UnsafeArchiveError, match="a path out of its folder"):
            unpack(archive, into)
    assert below(tmp_path) == ["a.tar.gz", "a.zip"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(kind: bytes, tmp_path: Path, into: Path) -> None:
    with pytest.raises(UnsafeArchiveError, match=r"holds a (link|device), 'a\.jar'"):
        unpack(tar(tmp_path / "a.tar.gz", member("a.jar", kind, link="/etc/passwd")), into)
    with pytest.raises(UnsafeArchiveError, match="holds a link"):
        unpack(zipped(tmp_path / "a.zip", "a.jar", mode=0o120777), into)
    assert below(into) == []


def test_bombs_are_refused_by_what_they_unpack_to(tmp_path: Path, into: Path) -> None:
    bomb = zipped(tmp_path / "a.zip", "a.jar", content=bytes(5_000_000))
    assert bomb.stat().st_size < 10_000
    with pytest.raises(UnsafeArchiveError, match="more than 1000000 bytes"):
        unpack(bomb, into, most_bytes=1_000_000)
    assert (into / "a.jar").stat().st_size <= 1_000_000
    with pytest.raises(UnsafeArchiveError, match="more than 2 files"):
        unpack(zipped(tmp_path / "b.zip", "b", "c", "d"), into, most_files=2)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(("names", "told"), [(("a", "a"), "a path twice"), (("a", "a/b"), "one name|path twice")])
def test_a_path_that_is_there_twice_is_refused(names: tuple[str, ...], told: str, tmp_path: Path, into: Path) -> None:
    with pytest.raises(UnsafeArchiveError, match=told):
        unpack(zipped(tmp_path / "a.zip", *names), into)


def test_a_damaged_archive_is_told(tmp_path: Path, into: Path) -> None:
    for name in ("a.zip", "a.tar.gz"):
        (tmp_path / name).write_bytes(b"no archive")
        with pytest.raises(UnsafeArchiveError, match=f"{name} cannot be unpacked"):
            unpack(tmp_path / name, into)
