"""Secrets in answers, where `rest.mask.secrets` hides them; and the hidden ones that a client puts back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final

from fastapi import Depends, Request

from headrace.config.problems import ConfigError
from headrace.config.values import HIDDEN, looks_secret
from headrace.worker.errors import BadRequest, ConnectError, NotFound
from headrace.worker.herder.api import Herder
from headrace.worker.model import Config

_NEVER_SECRET: Final = ("BOOLEAN", "INT", "SHORT", "LONG", "DOUBLE", "CLASS")


class Masking:
    """What clients see of secrets, and what they mean by `[hidden]`; off, everything is as it is."""

    def __init__(self, herder: Herder, enabled: bool) -> None:
        self.enabled = enabled
        self._herder = herder
        self._types = cache(self._declared)  # plugins do not change while a worker runs

    def shown(self, config: Config, plugin: str | None = None) -> dict[str, str | None]:
        """The config as an answer has it; the plugin is the one that it names, unless told otherwise."""
        if not self.enabled:
            return dict(config)
        types = self._types(plugin or config.get("connector.class") or "")
        return {
            key: HIDDEN if value is not None and _secret(key, types.get(key)) else value
            for key, value in config.items()
        }

    def validated(self, infos: dict[str, Any], plugin: str) -> dict[str, Any]:
        """The ConfigInfos as an answer has them."""
        if not self.enabled:
            return infos
        values = {one["value"]["name"]: one["value"]["value"] for one in infos["configs"]}
        shown = self.shown(values, plugin)
        configs = [{**one, "value": {**one["value"], "value": shown[one["value"]["name"]]}} for one in infos["configs"]]
        return {**infos, "configs": configs}

    def meant(self, request: Request, name: str, config: Config) -> Config:
        """The config with the connector's present values for those that the client was shown as hidden.

        Errors: BadRequest where there is none to keep.
        """
        hidden = [key for key, value in config.items() if value == HIDDEN] if self.enabled else []
        if not hidden:
            return config
        present = self._present(name)
        self.refuse_hidden({key: config[key] for key in hidden if present.get(key) is None})
        meant = {**config, **{key: present[key] for key in hidden}}
        request.state.meant_body = json.dumps(meant).encode()  # the leader may be one that does not know of masks
        return meant

    def refuse_hidden(self, config: Config) -> None:
        """No value of a connector that is new is one to keep.

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
        except (ConnectError, ConfigError):  # it is not known here, or cannot be loaded: names alone tell
            return {}


def _secret(key: str, declared: str | None) -> bool:
    # Authors forget the type PASSWORD: a text with such a name is hidden all the same.
    return declared == "PASSWORD" or (looks_secret(key) and declared not in _NEVER_SECRET)


async def _masking(request: Request) -> Masking:
    masking: Masking = request.app.state.masking
    return masking


MaskingOf = Annotated[Masking, Depends(_masking)]
"""The app's masking."""
