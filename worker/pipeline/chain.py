"""The converters and transforms of one connector, made from its config and the worker's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from headrace.config.connector.config import ConverterConfig, converter_config
from headrace.config.worker.allowed_hosts import ALLOWED_HOSTS, EVERYWHERE
from headrace.config.worker.config import WorkerConfig
from headrace.plugins.contracts import Converter, HeaderConverter, TaskContext
from headrace.plugins.extensions import TopicEncoding
from headrace.plugins.interop.conversion.decode import ConverterBinding, header_values, with_headers_read
from headrace.plugins.interop.discovery import Plugins
from headrace.worker.pipeline.expression_keys import key_of, together
from headrace.worker.pipeline.java_stage import RunningStage, running_stage
from headrace.worker.pipeline.split_transforms import SplitTransforms
from headrace.worker.pipeline.transforms import Transforms

_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
"""Takes the place of a Java converter on Spark: bytes cross."""
_ENVELOPE: Final = "org.apache.kafka.connect.json.JsonConverter"

OnClose = Callable[[Callable[[], None]], None]
"""Takes what has to be called once the connector's task ends."""


@dataclass(frozen=True)
class Chain:
    """Makes the converters and transforms of one task; errors are ConfigError and those of plugins."""

    worker: WorkerConfig
    plugins: Plugins
    connector: Mapping[str, str] = field(repr=False)
    """The connector's config."""
    context: TaskContext
    split: SplitTransforms
    """The connector's transforms, by where they run."""
    on_close: OnClose
    at_end: OnClose
    """As `on_close`, after the last batch."""

    def envelope(self, with_schemas: bool = True) -> Converter:
        """Make a JsonConverter, by default one that shows values with their schemas."""
        converter: Converter = self.plugins.find("converter", _ENVELOPE).load()()
        converter.configure({"converter.type": "value", "schemas.enable": str(with_schemas).lower()}, False)
        return converter

    def conversion(self, side: str, only_asks: bool = False) -> ConverterBinding:
        """Make the converter of keys or values; `only_asks`: as `TopicEncoding.only_asks`.

        Errors: NotImplementedError for a converter that cannot promise it.
        """
        named = converter_config(side, self.connector, self.worker.originals)
        if side in self.split.java_stage.converters:
            named = ConverterConfig(_BYTES, {})
        found = self.plugins.find("converter", named.class_name)
        converter: Converter = found.load()()
        converter.worker = self._settings_for(f"{side}.converter")
        if only_asks and isinstance(converter, TopicEncoding):
            if converter.only_asks is None:
                raise NotImplementedError(
                    f"{found.class_name} does not say that it can ask without a change (only_asks)"
                )
            converter.only_asks = True
        converter.configure(named.props, side == "key")
        self.on_close(converter.close)
        converter.check()
        return ConverterBinding.of(converter, found.class_name)

    def java_stage(self, is_source: bool) -> RunningStage | None:
        """Start the Java stage of a connector that runs in the worker; None if there is none."""
        if not self.split.comes_back:
            return None
        made = running_stage()
        self.at_end(made.stop)
        made.start(self.split.java_stage, self.context, is_source)
        self.on_close(made.end_waits)
        return made

    def transforms(self, aliases: Collection[str]) -> Transforms:
        """Make those of these transforms that run on Spark."""
        named = converter_config("header", self.connector, self.worker.originals)
        found = self.plugins.find("header_converter", named.class_name)
        if found.from_jar or (self.split.java_stage.converters and not self.split.comes_back):
            return Transforms()  # all run in Java, which reads and writes headers, too
        converter: HeaderConverter = found.load()()
        converter.configure(named.props, False)
        self.on_close(converter.close)
        converter.check()
        settings = {"python.transforms.allowed": self.worker["python.transforms.allowed"]}
        made = Transforms.of(self.connector, self.plugins, converter.encode, settings, aliases)
        read = partial(with_headers_read, converter=converter, class_name=found.class_name)
        key = together(key_of(converter), found.class_name)
        return replace(made, headers_read=read, header_values=header_values(converter), headers_key=key)

    def _settings_for(self, converter: str) -> Mapping[str, Any]:
        """The worker's settings for a converter; one from the worker's properties may reach every host."""
        settings = self.context.worker
        return settings if self.connector.get(converter) is not None else {**settings, ALLOWED_HOSTS: EVERYWHERE}
