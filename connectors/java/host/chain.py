"""The transforms, predicates and converters of a task inside a host."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import jpype

from headrace.connectors.java.host.jvm import Jvm
from headrace.connectors.java.host.plugin import Plugin, java_map

log = logging.getLogger(__name__)

_USUAL_HEADERS: Final = {
    "plugin": {"class": "org.apache.kafka.connect.storage.SimpleHeaderConverter", "location": "", "jars": []},
    "config": {},
}


class HostedChain:
    """What a task's records pass in the host; `java` applies it."""

    def __init__(self, jvm: Jvm, given: Mapping[str, Any] | None, is_source: bool, comes_back: bool = False) -> None:
        """Make and configure all of it; `given` is what `chain.chain_of` told. Errors: those of the plugins.

        `comes_back`: records come from the worker and go back to it, their headers as Kafka's bytes.
        """
        self._jvm = jvm
        self._made: list[tuple[Plugin, Any]] = []
        self.java: Any = None
        """The object of `Chain.java`; None: nothing is done."""
        self.tolerates = given is None or bool(given["tolerate"])
        self.converts = given is not None and bool(given["converters"])
        """Whether it reads, or makes, Kafka's bytes."""
        if given is None:
            return
        self.java = jvm.headrace("Chain")(given["retry_ms"], given["most_delay_ms"])
        try:
            made = self._converters(given["converters"]) if self.converts or comes_back else (None, None, None)
            headers = None, None, made[2]
            if comes_back or (self.converts and not is_source):
                self.java.decode(*(headers if is_source else made))
            for link in given["links"]:
                self._add(link)
            if comes_back or (self.converts and is_source):
                self.java.encode(*(made if is_source else headers))
        except BaseException:
            self.close()
            raise

    def headers(self, given: Mapping[str, Any] | None) -> Any:
        """The converter of headers, as told or the usual one; None where the chain converts them."""
        return None if self.converts else self._configured(given or _USUAL_HEADERS)[1]

    def end(self) -> None:
        """End a wait for another try."""
        if self.java is not None:
            self.java.end()

    def close(self) -> None:
        """Close all that was made; errors are logged."""
        for plugin, made in self._made:
            try:
                with plugin.entered():
                    made.close()
            except jpype.JException as error:
                log.warning("The plugin %s failed to close: %s", plugin.name, error.stacktrace())
        self._made.clear()

    def _add(self, link: Mapping[str, Any]) -> None:
        plugin, transform = self._configured(link["transform"])
        test, loader = None, None
        if link["predicate"] is not None:
            of, test = self._configured(link["predicate"])
            loader = of.loader
        self.java.transform(transform, plugin.loader, test, loader, link["negate"])

    def _configured(self, given: Mapping[str, Any], *more: Any) -> tuple[Plugin, Any]:
        """The plugin, and an object of it that is configured."""
        plugin = Plugin(self._jvm, given["plugin"])
        with plugin.entered():
            made = plugin.make()
            made.configure(java_map(given["config"]), *more)
        self._made.append((plugin, made))
        return plugin, made

    def _converters(self, given: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """Those of keys, values and headers; of headers there is one in any case."""
        sides = {side: given.get(side) for side in ("key", "value")}
        made = [None if one is None else self._configured(one, side == "key")[1] for side, one in sides.items()]
        return made[0], made[1], self._configured(given.get("header", _USUAL_HEADERS))[1]
