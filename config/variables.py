"""Variables within values, `${provider:path:key}` or `${provider:key}`, resolved by config providers.

Configs are stored and shown with their variables. The worker that needs the values resolves them each time a connector
or task starts or is validated. Everything that a provider returns is a secret (Invariant 6).
"""

from __future__ import annotations

import logging
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from headrace.config.problems import ConfigError, Problem
from headrace.config.providers import ConfigProvider, Provided
from headrace.config.values import telling

log = logging.getLogger(__name__)

# Apache's: no nesting, escapes or defaults; the path ends at the first colon, the key may contain colons.
_VARIABLE: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
_REMEMBERED: Final = 10_000


class UnresolvedError(ConfigError):
    """A provider failed to give a value."""


class Variable(NamedTuple):
    """A variable as written in a value, and its parts."""

    text: str
    provider: str
    path: str
    key: str


def variables_in(value: str) -> Iterator[Variable]:
    """The variables in a value, in order."""
    for match in _VARIABLE.finditer(value):
        yield Variable(match[0], match[1], match[3] or "", match[4])


@dataclass(frozen=True)
class FoundValues:
    """The values of a config's variables."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values by the variable's text; variables without a value are absent."""
    ttl_ms: int | None = None
    """The shortest time to live of these values, for `config.action.reload`."""

    def into(self, config: Mapping[str, str]) -> dict[str, str]:
        """The config with its variables replaced, once: variables within values are not resolved."""
        return {key: self._into(value) for key, value in config.items()}

    def _into(self, value: str) -> str:
        return _VARIABLE.sub(lambda match: self.values.get(match[0], match[0]), value)


class Variables:
    """The providers of a worker, and the values they returned."""

    def __init__(
        self, providers: Mapping[str, ConfigProvider], heard: Callable[[Collection[str]], None] = lambda _values: None
    ) -> None:
        """`heard` is called with a provider's values before they are used."""
        self.providers = providers
        self._heard = heard
        self._lock = threading.Lock()
        self._last: dict[str, str] = {}
        self._given: dict[str, str] = {}
        self._warned: set[str] = set()

    @classmethod
    def of(
        cls,
        props: Mapping[str, str],
        find: Callable[[str], type[Any]],
        heard: Callable[[Collection[str]], None] = lambda _values: None,
    ) -> Variables:
        """The providers that a worker's properties declare; `find` gives the class of a name.

        Errors: ConfigError with all problems.
        """
        names = [name.strip() for name in props.get("config.providers", "").split(",") if name.strip()]
        problems: list[Problem] = []
        providers: dict[str, ConfigProvider] = {}
        for name in names:
            try:
                providers[name] = _provider(f"config.providers.{name}.", props, find)
            except ConfigError as error:
                problems += error.problems
        if problems:
            raise ConfigError(problems, "The worker's configuration")
        return cls(providers, heard)

    def resolve(self, config: Mapping[str, str]) -> dict[str, str]:
        """The config for plugins; variables of unknown providers and keys stay. Errors: UnresolvedError."""
        return self.look_up(config).into(config)

    def look_up(self, config: Mapping[str, str]) -> FoundValues:
        """The present values of a config's variables; one call per provider and path. Errors: UnresolvedError."""
        asked: dict[tuple[str, str], list[Variable]] = defaultdict(list)
        for value in config.values():
            for variable in variables_in(value):
                asked[variable.provider, variable.path].append(variable)
        values: dict[str, str] = {}
        times: list[int] = []
        for variables in asked.values():
            provided = self._ask(variables, config)
            values |= {one.text: provided.values[one.key] for one in variables if one.key in provided.values}
            times += [] if provided.ttl_ms is None else [provided.ttl_ms]
        if values:
            self._heard(values.values())
            self._remember(values)
        return FoundValues(values, min(times, default=None))

    def last(self, config: Mapping[str, str]) -> dict[str, str]:
        """The config with the values found last; calls no provider, so variables not seen before stay."""
        return FoundValues(self._last).into(config) if self._last else dict(config)

    def found_last(self, config: Mapping[str, str]) -> list[str]:
        """The values found last for the variables in the config."""
        last = self._last
        return [last[one.text] for value in config.values() for one in variables_in(value) if one.text in last]

    def unresolved(self, raw: Mapping[str, str], task_config: Mapping[str, str]) -> dict[str, str]:
        """A task's config with variables put back for the values that its connector copied from its config `raw`.

        Connect puts back values under equal keys. Here secrets within other values, or under other keys, are put back
        too: they would else be in the config topic and in answers. Values that a connector derives, such as a task's
        share of tables, stay.
        """
        own = {key: value for key, value in raw.items() if next(variables_in(value), None)}
        if not own:
            return dict(task_config)
        whole = self.last(own)
        texts = {variable.text for value in own.values() for variable in variables_in(value)}
        with self._lock:
            back = {value: text for value, text in self._given.items() if text in texts and telling(value)}
        secrets = sorted(back, key=len, reverse=True)

        def put_back(key: str, value: str) -> str:
            if key in own and whole[key] == value:
                return own[key]
            for secret in secrets:
                value = value.replace(secret, back[secret])
            # A part of a secret may be left, such as a file's text without its line end.
            left = key in own and any(piece in value for secret in secrets for piece in telling(secret))
            return own[key] if left else value

        return {key: put_back(key, value) for key, value in task_config.items()}

    def close(self) -> None:
        """Closes the providers; none is called afterwards."""
        for provider in self.providers.values():
            provider.close()

    def _ask(self, variables: list[Variable], config: Mapping[str, str]) -> Provided:
        first = variables[0]
        provider = self.providers.get(first.provider)
        if provider is None:
            self._warn_once(first.provider, first.text, "config.providers does not name its provider")
            return Provided({})
        keys = {variable.key for variable in variables}
        try:
            provided = provider.get(first.path, keys)
        except Exception as error:
            places = ", ".join(key for key, value in config.items() if first.text in value)
            raise UnresolvedError(_problem(error, places, first.text)) from error
        for variable in variables:
            if variable.key not in provided.values:
                self._warn_once(variable.text, variable.text, "its provider knows no such value, or may not show it")
        return provided

    def _remember(self, values: Mapping[str, str]) -> None:
        with self._lock:
            # Replaced, not mutated: `last` reads it from any thread without the lock.
            self._last = {**self._last, **values}
            for text, value in values.items():
                self._given.pop(value, None)
                self._given[value] = text
            for oldest in list(self._given)[:-_REMEMBERED]:
                del self._given[oldest]

    def _warn_once(self, about: str, text: str, why: str) -> None:
        with self._lock:
            if about in self._warned:
                return
            self._warned.add(about)
        log.warning("%s is left as it stands: %s. Its user gets this very text.", text, why)


NO_VARIABLES: Final = Variables({})
"""The variables of a worker without providers."""


def _provider(prefix: str, props: Mapping[str, str], find: Callable[[str], type[Any]]) -> ConfigProvider:
    key, name = f"{prefix}class", props.get(f"{prefix}class", "").strip()
    if not name:
        raise ConfigError(Problem(key, None, "The provider has no class.", "Set it, or shorten config.providers."))
    try:
        found = find(name)
    except ConfigError as error:
        remedy = "Install the plugin that has it, or put it on plugin.path."
        raise ConfigError(Problem(key, name, error.problems[0].message, remedy)) from error
    under = f"{prefix}param."
    params = {one.removeprefix(under): value for one, value in props.items() if one.startswith(under)}
    try:
        provider: ConfigProvider = found()
        provider.configure({**params, **found.settings.parse(params)})
    except ConfigError as error:
        problems = [Problem(under + one.key, one.value, one.message, one.remedy) for one in error.problems]
        raise ConfigError(problems) from error
    except Exception as error:
        raise ConfigError(_problem(error, key, name)) from error
    return provider


def _problem(error: Exception, key: str, value: str) -> Problem:
    if isinstance(error, ConfigError):
        return Problem(key, value, error.problems[0].message, error.problems[0].remedy)
    return Problem(key, value, f"{type(error).__name__}: {error}", "Its config provider says so.")
