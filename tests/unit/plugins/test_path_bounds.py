"""`file.allowed.paths` bounds what is opened, also against links that are put in the way meanwhile."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from headrace.config.settings import ConfigError
from headrace.plugins import path_bounds
from headrace.plugins.path_bounds import allowed_paths, check_allowed, open_allowed


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "a").write_text("inside")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a").write_text("outside")
    return tmp_path / "in"


def text_of(path: Path, *allowed: Path) -> str:
    descriptor = open_allowed(str(path), os.O_RDONLY, tuple(map(str, allowed)))
    with open(descriptor) as file:
        return file.read()


def test_files_within_are_opened(inside: Path) -> None:
    file = inside / "deep" / "a"
    assert text_of(file, inside) == "inside"
    assert text_of(file, inside / "other", file) == "inside"
    assert text_of(file, Path("/")) == "inside"
    assert text_of(file) == "inside"


def test_links_within_are_followed(inside: Path) -> None:
    (inside / "link").symlink_to(inside / "deep")
    assert text_of(inside / "link" / "a", inside) == "inside"
    (inside.parent / "entry").symlink_to(inside)
    assert text_of(inside.parent / "entry" / "deep" / "a", inside.parent / "entry") == "inside"


@pytest.mark.parametrize("way", ["inner/a", "in/../inner/a", "in/link", "in/directory/a"])
def test_what_leads_outside_is_refused(inside: Path, way: str) -> None:
    (inside / "link").symlink_to(inside.parent / "inner" / "a")
    (inside / "directory").symlink_to(inside.parent / "inner")
    path = inside.parent / way
    with pytest.raises(ConfigError, match=r"outside of file\.allowed\.paths"):
        text_of(path, inside)
    with pytest.raises(ConfigError, match=r"outside of file\.allowed\.paths"):
        check_allowed(str(path), (str(inside),))


@pytest.mark.parametrize("swapped", ["deep", "deep/a"])
def test_a_link_put_in_the_way_after_the_check_is_refused(
    inside: Path, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.path.realpath

    def resolve_then_swap(path: str) -> str:
        resolved = real(path)
        if path.endswith("deep/a") and not (inside / swapped).is_symlink():
            (inside / swapped).rename(inside / "moved")
            (inside / swapped).symlink_to(inside.parent / ("inner" if swapped == "deep" else "inner/a"))
        return resolved

    monkeypatch.setattr(os.path, "realpath", resolve_then_swap)
    with pytest.raises(ConfigError):
        text_of(inside / "deep" / "a", inside)


def test_nothing_is_created_outside(inside: Path) -> None:
    (inside / "link").symlink_to(inside.parent / "made")
    with pytest.raises(ConfigError):
        open_allowed(str(inside / "link"), os.O_WRONLY | os.O_CREAT, (str(inside),))
    assert not (inside.parent / "made").exists()


def test_errors_name_the_whole_path(inside: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        text_of(inside / "no" / "file", inside)
    assert raised.value.filename == str(inside / "no" / "file")


def test_no_bounds_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    path_bounds._warn_of_no_bounds.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert allowed_paths({}) == ()
        assert allowed_paths({"file.allowed.paths": []}) == ()
        assert allowed_paths({"file.allowed.paths": ["/a"]}) == ("/a",)
    assert len(caplog.records) == 1
