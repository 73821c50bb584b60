"""Apache's config providers, and what they may not read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headrace.config.problems import ConfigError
from headrace.config.providers import (
    ConfigProvider,
    DirectoryConfigProvider,
    EnvVarConfigProvider,
    FileConfigProvider,
)


def ready(kind: type[ConfigProvider], **params: str) -> ConfigProvider:
    provider = kind()
    provider.configure(kind.settings.parse({key.replace("_", "."): value for key, value in params.items()}))
    return provider


def values(provider: ConfigProvider, path: Any, *keys: str) -> dict[str, str]:
    return dict(provider.get(str(path) if path else "", keys).values)


def refusal(call: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    return caught.value.problems[0].message


def test_a_file_gives_properties_in_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "p.properties"
    file.write_text("a=1\nb : größe \\u00e9\n# no\nlong=x\\\n  y\n", encoding="utf-8")
    provider = ready(FileConfigProvider)
    assert values(provider, file, "a", "b", "long", "no") == {"a": "1", "b": "größe é", "long": "xy"}
    assert values(provider, "", "a") == {}
    assert provider.get(str(file), ["a"]).ttl_ms is None


@pytest.mark.parametrize("content", [None, b"\xff\xfe\xfd", rb"a=\u12"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "p.properties"
    if content is not None:
        file.write_bytes(content)
    text = f"Could not read properties from file {file}"
    assert refusal(lambda: values(ready(FileConfigProvider), file, "a")) == text


def test_the_parser_s_error_does_not_tell_the_file_s_text(tmp_path: Path) -> None:
    file = tmp_path / "p.properties"
    file.write_text(r"password=hunter2\u12", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        values(ready(FileConfigProvider), file, "password")
    assert "hunter2" not in str(caught.value)


def test_only_allowed_paths_are_read_wherever_links_lead(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    inside, outside = tmp_path / "in", tmp_path / "in-side"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "p").write_text("a=1")
    (inside / "out").symlink_to(outside / "p")
    (inside / "again").symlink_to(inside / "p")
    (outside / "in").symlink_to(inside / "p")
    provider = ready(FileConfigProvider, allowed_paths=f"{inside}, {inside}")
    assert values(provider, inside / "p", "a") == values(provider, inside / "again", "a") == {"a": "1"}
    assert values(provider, outside / "in", "a") == {"a": "1"}
    for path in (outside / "p", inside / ".." / "in-side" / "p", inside / "out"):
        caplog.clear()
        assert values(provider, path, "a") == {}, path
        assert f"The path {path} is not allowed to be accessed" in caplog.text


@pytest.mark.parametrize("kind", [FileConfigProvider, DirectoryConfigProvider])
def test_a_link_put_in_the_way_after_the_check_is_not_read(
    tmp_path: Path, kind: type[ConfigProvider], monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "a").write_text(f"a={folder.name}")
    provider, real = ready(kind, allowed_paths=str(inside)), os.path.realpath

    def resolve_then_swap(path: Any, **given: Any) -> str:
        resolved = real(path, **given)
        if resolved == str(inside / "a"):
            (inside / "a").unlink()
            (inside / "a").symlink_to(outside / "a")
        return resolved

    monkeypatch.setattr(os.path, "realpath", resolve_then_swap)
    place = inside / "a" if kind is FileConfigProvider else inside
    assert "Could not read" in refusal(lambda: values(provider, place, "a"))


@pytest.mark.parametrize(
    ("paths", "message"), [("relative", "Path relative is not absolute"), ("/no/such", "Path /no/such does not exist")]
)
@pytest.mark.parametrize("kind", [FileConfigProvider, DirectoryConfigProvider])
def test_allowed_paths_are_checked(kind: type[ConfigProvider], paths: str, message: str) -> None:
    assert refusal(lambda: ready(kind, allowed_paths=paths)) == message


def test_a_folder_gives_its_files(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "x").write_text("x")
    provider = ready(DirectoryConfigProvider)
    found = values(provider, tmp_path, "password", "sub", "sub/x", "../" + tmp_path.name + "/password", "none", "", ".")
    assert found == {"password": "hunter2\n"}
    assert values(provider, tmp_path / "password", "password") == values(provider, "", "password") == {}


def test_files_of_a_folder_may_be_links_within_what_is_allowed(tmp_path: Path) -> None:
    """As Kubernetes mounts secrets."""
    mount, other = tmp_path / "mount", tmp_path / "other"
    (mount / "..data").mkdir(parents=True)
    (mount / "..data" / "key").write_text("k")
    (mount / "key").symlink_to(mount / "..data" / "key")
    other.write_text("o")
    (mount / "out").symlink_to(other)
    assert values(ready(DirectoryConfigProvider, allowed_paths=str(mount)), mount, "key", "out") == {"key": "k"}
    assert values(ready(DirectoryConfigProvider), mount, "out") == {"out": "o"}


def test_a_file_of_a_folder_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff")
    text = f"Could not read file {tmp_path}/key for property key"
    assert refusal(lambda: values(ready(DirectoryConfigProvider), tmp_path, "key")) == text


def test_the_environment_is_that_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "hunter2")
    monkeypatch.setenv("DB_PASSWORD_OLD", "x")
    every, some = ready(EnvVarConfigProvider), ready(EnvVarConfigProvider, allowlist_pattern="DB_PASS(WORD)?")
    monkeypatch.setenv("DB_PASSWORD", "changed")
    keys = ("DB_PASSWORD", "DB_PASSWORD_OLD", "NOT_SET_ANYWHERE")
    assert values(every, "", *keys) == {"DB_PASSWORD": "hunter2", "DB_PASSWORD_OLD": "x"}
    assert values(some, "", *keys) == {"DB_PASSWORD": "hunter2"}


def test_the_environment_has_no_paths() -> None:
    text = "Path is not supported for EnvVarConfigProvider, invalid value 'p'"
    assert refusal(lambda: values(ready(EnvVarConfigProvider), "p", "HOME")) == text


def test_a_pattern_must_be_one() -> None:
    assert "allowlist.pattern" in refusal(lambda: ready(EnvVarConfigProvider, allowlist_pattern="("))
