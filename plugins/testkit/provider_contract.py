"""Tests that any config provider must pass."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.config.problems import ConfigError
from headrace.config.providers import ConfigProvider
from headrace.plugins.testkit.promises import holds, same

UNKNOWN = "headrace-testkit-no-such-name"


class ConfigProviderContract:
    """Tests that any config provider must pass; its author overrides two fixtures."""

    @pytest.fixture
    def provider(self) -> ConfigProvider:
        """Override: the provider, configured."""
        raise NotImplementedError("override the fixture `provider`")

    @pytest.fixture
    def known(self) -> Mapping[str, Mapping[str, str]]:
        """Override: values that it has, by path and key."""
        raise NotImplementedError("override the fixture `known`")

    def test_it_gives_its_values(self, provider: ConfigProvider, known: Mapping[str, Mapping[str, str]]) -> None:
        for path, values in known.items():
            same(dict(provider.get(path, list(values)).values), dict(values), f"all values under {path!r}")
            for key, value in values.items():
                promise = f"only the key that was asked for, {key!r} under {path!r}"
                same(dict(provider.get(path, [key]).values), {key: value}, promise)

    def test_an_unknown_key_is_absent(self, provider: ConfigProvider, known: Mapping[str, Mapping[str, str]]) -> None:
        for path, values in known.items():
            found = provider.get(path, [UNKNOWN, *values]).values
            same(dict(found), dict(values), f"an unknown key under {path!r} is absent: neither empty nor an error")

    def test_an_unknown_path_gives_nothing_or_an_error_that_names_it(self, provider: ConfigProvider) -> None:
        promise = "an unknown path gives nothing, or an error that names it"
        try:
            found = dict(provider.get(UNKNOWN, ["key"]).values)
        except Exception as error:
            holds(UNKNOWN in str(error), promise, f"the error is {error!r}")
            holds(isinstance(error, ConfigError | OSError | LookupError), promise, f"the error is {error!r}")
        else:
            same(found, {}, promise)

    def test_no_value_is_told(
        self,
        provider: ConfigProvider,
        known: Mapping[str, Mapping[str, str]],
        caplog: pytest.LogCaptureFixture,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        caplog.set_level(0)
        for path, values in known.items():
            provider.get(path, list(values))
        told = f"{caplog.text}\n{provider!r}\n{provider}\n{''.join(capfd.readouterr())}"
        shown = [key for values in known.values() for key, value in values.items() if value and value in told]
        same(shown, [], "no value is in the log, in what is printed, or in the provider's text")

    def test_any_thread_may_ask(self, provider: ConfigProvider, known: Mapping[str, Mapping[str, str]]) -> None:
        asked = list(known) * 20
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(lambda path: dict(provider.get(path, list(known[path])).values), asked))
        same(found, [dict(known[path]) for path in asked], "eight threads at once are each given what they ask for")
        provider.close()
