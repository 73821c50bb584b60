"""The settings of Apicurio's converters, with the names and defaults of 3.x, and what they choose.

Decided: `as-confluent`, which 3.x does not have, is taken only beside `use-id`, because an id that no setting describes
is global in 2.x and of the content in 3.x; loses: configs of 2.x without `use-id`, which say so by one line more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.config.problems import ConfigError
from headrace.config.settings import Importance, Problem, Settings, Type
from headrace.converters.apicurio.connection import CONNECTION_SETTINGS, OWN
from headrace.converters.registry.schema_settings import flag, key

TOPICS: Final = ("TopicIdStrategy", "SimpleTopicIdStrategy")
"""Strategies that name artifacts by the topic."""
RECORDS: Final = ("RecordIdStrategy", "QualifiedRecordIdStrategy", "TopicRecordIdStrategy")
"""Strategies that name artifacts by the record's full name."""
_FOUR: Final = ("Default4ByteIdHandler", "Legacy4ByteIdHandler")
_EIGHT: Final = ("Legacy8ByteIdHandler", "DefaultIdHandler")
_EITHER: Final = "OptimisticFallbackIdHandler"
_IF_EXISTS: Final = {
    "FIND_OR_CREATE_VERSION": "FIND_OR_CREATE_VERSION",
    "CREATE_VERSION": "CREATE_VERSION",
    "FAIL": "FAIL",
    "RETURN_OR_UPDATE": "FIND_OR_CREATE_VERSION",
    "UPDATE": "CREATE_VERSION",
}
"""The values of `auto-register.if-exists` in 3.x and 2.x, and what they are in 3.x."""
_USES: Final = {"contentId": "contentIds", "globalId": "globalIds"}
_ONLY: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "headers.handler": (("DefaultHeadersHandler",), "Java classes are not loaded here"),
    "schema-resolver": (("DefaultSchemaResolver",), "Java classes are not loaded here"),
    "use-schema-from-headers": (("false",), "A schema is not taken from a record's header"),
    "artifact.schema.location": ((), "A schema is not taken from a file"),
    "fallback.artifact-id": ((), "A record that names no schema is not read by another artifact's"),
    "fallback.provider": (("DefaultFallbackArtifactProvider",), "Java classes are not loaded here"),
    "serde.contract-rules.enabled": (("false",), "The rules of a contract are not executed"),
}
"""Settings with the only values that are served (classes by their simple names), and why there are no others."""


def _header(side: str, name: str) -> str:
    return f"headers.{side}.{name}.name"


APICURIO_SETTINGS: Final = (
    Settings(
        flag(f"{OWN}auto-register", False, "Register schemas that the registry does not have.", Importance.MEDIUM),
        key(
            f"{OWN}auto-register.if-exists",
            Type.STRING,
            "FIND_OR_CREATE_VERSION",
            "What auto-register does with an artifact that exists: " + ", ".join(_IF_EXISTS) + ".",
        ),
        flag(f"{OWN}find-latest", False, "Write with the latest schema; needs auto-register=false.", Importance.MEDIUM),
        key(
            f"{OWN}artifact-resolver-strategy",
            Type.STRING,
            "io.apicurio.registry.serde.strategy.TopicIdStrategy",
            "How artifacts are named: " + ", ".join(TOPICS) + "; for Avro also " + ", ".join(RECORDS) + ".",
        ),
        key(f"{OWN}artifact.group-id", Type.STRING, None, "The group of the artifacts, in place of the strategy's."),
        key(f"{OWN}artifact.artifact-id", Type.STRING, None, "The artifact, in place of the strategy's."),
        key(f"{OWN}artifact.version", Type.STRING, None, "The version to write with, or to register."),
        flag(f"{OWN}canonicalize", False, "Find schemas by their canonical form."),
        key(f"{OWN}use-id", Type.STRING, "contentId", "The ids in records: contentId or globalId."),
        key(
            f"{OWN}id-handler",
            Type.STRING,
            "io.apicurio.registry.serde.Default4ByteIdHandler",
            f"The bytes of an id: {_FOUR[0]}, {_EIGHT[0]}, or {_EITHER}, which reads both and writes four.",
        ),
        key(f"{OWN}as-confluent", Type.BOOLEAN, None, "The name in 2.x for ids of four bytes; needs use-id."),
        flag(f"{OWN}headers.enabled", False, "Read ids in headers, too; records cannot be written so."),
        *(
            key(OWN + _header(side, name), Type.STRING, f"apicurio.{side}.{name}", "The header's name.")
            for side in ("key", "value")
            for name in _USES
        ),
        flag(f"{OWN}serde.validation-enabled", True, "Refuse a registered schema that cannot read the record's own."),
        key(f"{OWN}check-period-ms", Type.LONG, 30000, "How long the latest version is cached."),
        *(key(OWN + name, Type.STRING, None, "Not supported.") for name in _ONLY),
    )
    + CONNECTION_SETTINGS
)
"""The settings that Apicurio's converters share."""


@dataclass(frozen=True)
class ApicurioOptions:
    """The choices of schemas, artifacts and ids in the settings."""

    use: str
    """contentIds or globalIds, as in paths of the registry."""
    sizes: tuple[int, ...]
    """The bytes of an id; if there are two, the first are written."""
    headers: Mapping[str, str] | None
    """The headers with ids, by `contentIds` and `globalIds`; None if ids stand before values only."""
    register: bool
    if_exists: str
    latest: bool
    strategy: str
    group: str | None
    artifact: str | None
    version: str | None
    canonical: bool
    strict: bool
    period_s: float


def apicurio_options(
    config: Mapping[str, str], values: Mapping[str, Any], side: str, strategies: Sequence[str]
) -> ApicurioOptions:
    """The options in these settings, `values` parsed from `config`; `side`: key or value. Errors: ConfigError."""
    _refuse_unserved(values)
    names = {path: values[OWN + _header(side, name)] for name, path in _USES.items()}
    return ApicurioOptions(
        use=_USES[_one_of(values, "use-id", _USES)],
        sizes=_sizes(config, values),
        headers=names if values[f"{OWN}headers.enabled"] else None,
        register=values[f"{OWN}auto-register"],
        if_exists=_IF_EXISTS[_one_of(values, "auto-register.if-exists", _IF_EXISTS)],
        latest=values[f"{OWN}find-latest"],
        strategy=_one_of(values, "artifact-resolver-strategy", strategies),
        group=values[f"{OWN}artifact.group-id"] or None,
        artifact=values[f"{OWN}artifact.artifact-id"] or None,
        version=values[f"{OWN}artifact.version"] or None,
        canonical=values[f"{OWN}canonicalize"],
        strict=values[f"{OWN}serde.validation-enabled"],
        period_s=values[f"{OWN}check-period-ms"] / 1000,
    )


def _refuse_unserved(values: Mapping[str, Any]) -> None:
    problems = []
    for name, (served, why) in _ONLY.items():
        given = values[OWN + name]
        if given and _simple(given).lower() not in map(str.lower, served):
            remedy = f"Set it to {' or '.join(served)}." if served else f"Leave {OWN}{name} out."
            problems.append(Problem(OWN + name, given, f"{why}.", remedy))
    if problems:
        raise ConfigError(problems)


def _one_of(values: Mapping[str, Any], name: str, served: Mapping[str, str] | Sequence[str]) -> str:
    """The value of a setting by its simple name. Errors: ConfigError if it is not served."""
    given = values[OWN + name]
    if (found := _simple(given)) not in served:
        raise ConfigError(Problem(OWN + name, given, "It is not served.", f"Use one of {', '.join(served)}."))
    return found


def _sizes(config: Mapping[str, str], values: Mapping[str, Any]) -> tuple[int, ...]:
    handler = _one_of(values, "id-handler", (*_FOUR, *_EIGHT, _EITHER))
    found = {_EITHER: (4, 8)}.get(handler, (4,) if handler in _FOUR else (8,))
    if (confluent := values[f"{OWN}as-confluent"]) is None:
        return found
    by_flag = (4,) if confluent else (8,)
    if f"{OWN}use-id" not in config:
        what = "Apicurio's converter of 2.x writes global ids unless use-id says otherwise; that of 3.x does not."
        remedy = f"Set {OWN}use-id to globalId or contentId, whichever the topic's records have."
        raise ConfigError(Problem(f"{OWN}as-confluent", str(confluent).lower(), what, remedy))
    if f"{OWN}id-handler" in config and found != by_flag:
        what = f"It contradicts {OWN}id-handler={handler}."
        raise ConfigError(Problem(f"{OWN}as-confluent", str(confluent).lower(), what, "Leave one of them out."))
    return by_flag


def _simple(name: str) -> str:
    return name.strip().rpartition(".")[2]
