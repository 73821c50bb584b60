"""Hides secrets in answers if `rest.mask.secrets` is set, and restores those that a client sends back hidden."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final

from fastapi import Depends, Request

from headrace.config.problems import ConfigError
from headrace.config.values import HIDDEN, looks_secret
from headrace.rest.http.bodies import ConfigInfos
from headrace.worker.errors import BadRequest, ConnectError, NotFound
from headrace.worker.herder.api import Herder
from headrace.worker.model import Config

_NEVER_SECRET: Final = ("BOOLEAN", "INT", "SHORT", "LONG", "DOUBLE", "CLASS")


class Masking:
    """Hides secrets from clients, and replaces `[hidden]` by the present value; does nothing if switched off."""

    def __init__(self, herder: Herder, enabled: bool) -> None:
        self.enabled = enabled
        self._herder = herder
        self._types = cache(self._declared)  # plugins do not change while a worker runs

    def shown(self, config: Config, plugin: str | None = None) -> dict[str, str | None]:
        """The config as clients see it; `plugin`: its plugin, by default the one in the config."""
        return self.masked(config, plugin) if self.enabled else dict(config)

    def masked(self, config: Config, plugin: str | None = None) -> dict[str, str | None]:
        """The config without its secrets, even if masking is switched off."""
        types = self._types(plugin or config.get("connector.class") or "")
        return {
            key: HIDDEN if value is not None and _secret(key, types.get(key)) else value
            for key, value in config.items()
        }

    def validated(self, infos: ConfigInfos, plugin: str) -> ConfigInfos:
        """The result of a validation as clients see it."""
        if not self.enabled:
            return infos
        shown = self.shown({one.value.name: one.value.value for one in infos.configs}, plugin)
        configs = [
            one.model_copy(update={"value": one.value.model_copy(update={"value": shown[one.value.name]})})
            for one in infos.configs
        ]
        return infos.model_copy(update={"configs": configs})

    def meant(self, request: Request, name: str, config: Config) -> Config:
        """The config with each hidden value replaced by the connector's present one.

        Errors: BadRequest for a hidden value that has no present one.
        """
        hidden = [key for key, value in config.items() if value == HIDDEN] if self.enabled else []
        if not hidden:
            return config
        present = self._present(name)
        self.refuse_hidden({key: config[key] for key in hidden if present.get(key) is None})
        meant = {**config, **{key: present[key] for key in hidden}}
        request.state.meant_body = json.dumps(meant).encode()  # a Java leader cannot restore them
        return meant

    def refuse_hidden(self, config: Config) -> None:
        """Refuses hidden values in a new connector's config, which has no present values.

        Errors: BadRequest.
        """
        hidden = [key for key, value in config.items() if value == HIDDEN] if self.enabled else []
        if hidden:
            raise BadRequest(f"{', '.join(hidden)}: {HIDDEN} keeps the present value, and there is none; give it.")

    def _present(self, name: str) -> Config:
        try:
            return self._herder.connector_info(name).config
        except NotFound:
            return {}

    def _declared(self, plugin: str) -> Mapping[str, Any]:
        try:
            return {setting["name"]: setting["type"] for setting in self._herder.plugins.settings(plugin)}
        except (ConnectError, ConfigError):  # unknown or cannot be loaded: the names of settings decide
            return {}


def _secret(key: str, declared: str | None) -> bool:
    # Authors forget the type PASSWORD, so a text named like a secret is hidden, too.
    return declared == "PASSWORD" or (looks_secret(key) and declared not in _NEVER_SECRET)


async def _masking(request: Request) -> Masking:
    masking: Masking = request.app.state.masking
    return masking


MaskingOf = Annotated[Masking, Depends(_masking)]
"""The app's masking."""
