"""The process that Java plugins run in, without a worker."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headrace.config.problems import ConfigError
from headrace.connectors.java import hosts
from headrace.plugins.interop.discovery import BrokenPluginError, Plugins
from headrace.plugins.interop.java_hosts import JAVA_HOSTS
from headrace.plugins.interop.jvm.jars import fetch
from tests.integration.java_plugins import FILE_SOURCE


@pytest.mark.parametrize(
    ("heap", "options", "named", "why"),
    [
        (None, ["-XX:NoSuchOption=1"], ["java.host.options"], "Unrecognized VM option 'NoSuchOption=1'"),
        (None, ["-XX:+UseG1GC", "-XX:+UseParallelGC"], ["java.host.options"], "Multiple garbage collectors selected"),
        ("1k", [], ["java.host.heap"], "Too small maximum heap"),
        ("64m", ["-Xms1g"], ["java.host.heap", "java.host.options"], "Initial heap size set to a larger value"),
    ],
)
def test_what_the_jvm_refuses_is_told_with_the_setting(
    heap: str | None, options: list[str], named: list[str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JAVA_HOSTS, "heap", heap)
    monkeypatch.setattr(JAVA_HOSTS, "options", options)
    with pytest.raises(ConfigError, match=why) as refused:
        hosts.running_host()
    assert [problem.key for problem in refused.value.problems] == named
    assert not any(option in str(refused.value) for option in options), "they may have passwords"


def test_a_plugin_that_finds_no_host_is_refused_with_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (jar,) = (jar for jar in fetch("connect") if jar.name.startswith("connect-file-"))
    shutil.copy(jar, tmp_path)
    monkeypatch.setattr(JAVA_HOSTS, "options", ["-XX:NoSuchOption=1"])
    plugin = Plugins.discover([str(tmp_path)], [FILE_SOURCE]).find("source", FILE_SOURCE)
    with pytest.raises(BrokenPluginError, match=r"java\.host\.options .*Unrecognized VM option"):
        plugin.load()
