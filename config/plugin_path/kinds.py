"""Connect's kinds of Java plugins: their Java types, the plugins of Connect itself, and the shared class names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sink": "org.apache.kafka.connect.sink.SinkConnector",
        "source": "org.apache.kafka.connect.source.SourceConnector",
        "transformation": "org.apache.kafka.connect.transforms.Transformation",
        "predicate": "org.apache.kafka.connect.transforms.predicates.Predicate",
        "converter": "org.apache.kafka.connect.storage.Converter",
        "header_converter": "org.apache.kafka.connect.storage.HeaderConverter",
        "config_provider": "org.apache.kafka.common.config.provider.ConfigProvider",
        "rest_extension": "org.apache.kafka.connect.rest.ConnectRestExtension",
        "connector_client_config_override_policy": (
            "org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy"
        ),
    }
)
"""Java type of each kind of plugin, named and ordered as in `discovery.KINDS`."""

UNUSED: Final = ("rest_extension", "connector_client_config_override_policy")
"""Kinds that our worker cannot run; `connect-plugin-path` lists them, as Apache's does."""

BY_MANIFEST_ONLY: Final = ("config_provider", *UNUSED)
"""Kinds that Connect finds by their manifests in every mode, and never by reading classes."""

_VALUES: Final = ("converter", "header_converter")

SHIPPED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        **{java_type: (kind,) for kind, java_type in TYPES.items()},
        **{
            f"org.apache.kafka.connect.converters.{name}Converter": _VALUES
            for name in ("Boolean", "ByteArray", "Double", "Float", "Integer", "Long", "Number", "Short")
        },
        "org.apache.kafka.connect.json.JsonConverter": _VALUES,
        "org.apache.kafka.connect.storage.StringConverter": _VALUES,
        "org.apache.kafka.connect.storage.SimpleHeaderConverter": ("header_converter",),
        "org.apache.kafka.connect.mirror.MirrorCheckpointConnector": ("source",),
        "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector": ("source",),
        "org.apache.kafka.connect.mirror.MirrorSourceConnector": ("source",),
        **{
            f"org.apache.kafka.connect.transforms.{name}": ("transformation",)
            for name in (
                *("Cast", "ExtractField", "Flatten", "HoistField", "InsertField", "MaskField", "ReplaceField"),
                *("HeaderFrom", "SetSchemaMetadata", "TimestampConverter"),
                *("DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter", "ValueToKey"),
            )
        },
        **{
            f"org.apache.kafka.connect.transforms.predicates.{name}": ("predicate",)
            for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
        },
    }
)
"""Classes of Connect itself that a plugin's class may extend or implement, with the kinds that follow from it."""

_SHARED: Final = re.compile(
    r"(javax?|org\.ietf\.jgss|org\.omg|org\.w3c\.dom|org\.xml\.sax|org\.apache\.kafka|org\.slf4j)\."
)
_ISOLATED: Final = re.compile(
    r"org\.apache\.kafka\.(connect\.(transforms\.(?!(Transformation|predicates\.Predicate)$)"
    r"|json\.|file\.|mirror\.|mirror-client\.|converters\."
    r"|tools\."  # of Kafka's own tests, which have them on the class path; here they are on plugin.path
    r"|storage\.(StringConverter|SimpleHeaderConverter)$"
    r"|rest\.basic\.auth\.extension\.BasicAuthSecurityRestExtension$"
    r"|connector\.policy\.(?!ConnectorClientConfig(OverridePolicy|Request(\$ClientType)?)$))"
    r"|common\.config\.provider\.(?!ConfigProvider$))"
)


def is_shared(class_name: str) -> bool:
    """True if Connect's own copy of this class is used, whatever a plugin's jars hold."""
    return bool(_SHARED.match(class_name)) and not _ISOLATED.match(class_name)
