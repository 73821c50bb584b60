"""The name of a user without an entry in passwd."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from headrace.worker.cli import unknown_user
from headrace.worker.machine import nss_wrapper


def test_a_user_with_a_name_needs_nothing(tmp_path: Path) -> None:
    pwd.getpwuid(os.getuid())
    assert unknown_user.naming(tmp_path) == {}


def test_a_user_without_is_named_or_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.getuid", lambda: 1_000_770_000)
    monkeypatch.setattr(nss_wrapper, "_FOLDERS", (tmp_path,))
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    with pytest.raises(unknown_user.UnknownUser, match=r"1000770000 has no entry.*libnss-wrapper"):
        unknown_user.naming(tmp_path)
    (tmp_path / "any-machine").mkdir()
    library = tmp_path / "any-machine" / "libnss_wrapper.so"
    library.touch()
    named = unknown_user.naming(tmp_path)
    assert named["LD_PRELOAD"] == str(library)
    assert "\nheadrace:x:1000770000:" in Path(named["NSS_WRAPPER_PASSWD"]).read_text()
