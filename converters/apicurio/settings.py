"""The settings of Apicurio's converters, 3.x, and what they are by Confluent's names.

Decided: the registry is asked by its Confluent protocol, which every Apicurio Registry since 2.4 speaks beside its own,
because one client then serves both; loses: global ids, ids of eight bytes, ids in headers, and artifacts that no
subject names. These settings are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from headrace.config.problems import ConfigError
from headrace.config.settings import REQUIRED, Importance, Password, Problem, Setting, Settings, Type
from headrace.converters.registry.schema_settings import flag, key
from headrace.converters.registry.settings import HEADER_PREFIX, PREFIX
from headrace.plugins.interop.http.client import masked

_OWN: Final = "apicurio.registry."
URL: Final = f"{_OWN}url"
_CCOMPAT: Final = "/apis/ccompat/v7"
_APIS: Final = ("/apis/registry/v2", "/apis/registry/v3", "/apis/ccompat/v6", _CCOMPAT, "/apis/ccompat/v8")
_STRATEGIES: Final = {
    "TopicIdStrategy": "TopicNameStrategy",
    "QualifiedRecordIdStrategy": "RecordNameStrategy",
}
_ONLY: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "use-id": (("contentId",), "Records are named by content ids only"),
    "id-handler": (("Default4ByteIdHandler",), "Ids have four bytes only"),
    "as-confluent": (("true",), "Ids have four bytes only"),
    "headers.enabled": (("false",), "The id stands before the value, not in a header"),
    "auto-register.if-exists": (
        ("FIND_OR_CREATE_VERSION", "RETURN_OR_UPDATE"),
        "A schema that an artifact has is used, another one becomes its next version",
    ),
    "artifact-resolver-strategy": (tuple(_STRATEGIES), "Artifacts are named by the topic or by the record's full name"),
    "artifact.artifact-id": ((), "Artifacts are named by the strategy"),
    "artifact.version": ((), "A version is not chosen by its number"),
}
"""Settings with the only values that are served (classes by their simple names), and why there are no others."""
_TLS: Final = (
    "truststore.location",
    "truststore.password",
    "truststore.type",
    "keystore.location",
    "keystore.password",
)

APICURIO_SETTINGS: Final = Settings(
    Setting(URL, Type.STRING, REQUIRED, None, Importance.HIGH, "URL of the registry: of its own API or Confluent's."),
    flag(f"{_OWN}auto-register", False, "Register schemas that the registry does not have.", Importance.MEDIUM),
    flag(f"{_OWN}find-latest", False, "Write with the latest schema; needs auto-register=false.", Importance.MEDIUM),
    key(f"{_OWN}auto-register.if-exists", Type.STRING, "FIND_OR_CREATE_VERSION", "The only one that is served."),
    key(
        f"{_OWN}artifact-resolver-strategy",
        Type.STRING,
        "io.apicurio.registry.serde.strategy.TopicIdStrategy",
        "How artifacts are named: " + ", ".join(_STRATEGIES) + ".",
    ),
    key(f"{_OWN}artifact.group-id", Type.STRING, None, "The group of the artifacts."),
    key(f"{_OWN}artifact.artifact-id", Type.STRING, None, "Not supported."),
    key(f"{_OWN}artifact.version", Type.STRING, None, "Not supported."),
    key(f"{_OWN}use-id", Type.STRING, "contentId", "The only one that is served."),
    key(f"{_OWN}id-handler", Type.STRING, "Default4ByteIdHandler", "The only one that is served."),
    flag(f"{_OWN}headers.enabled", False, "Not supported."),
    flag(f"{_OWN}as-confluent", True, "Ids have four bytes; false is not supported."),
    flag(f"{_OWN}serde.validation-enabled", True, "Without effect: a value is written by its schema."),
    key(f"{_OWN}auth.username", Type.STRING, None, "User of the registry."),
    key(f"{_OWN}auth.password", Type.PASSWORD, None, "The user's password."),
    key(f"{_OWN}auth.service.token.endpoint", Type.STRING, None, "The token endpoint, for OAuth."),
    key(f"{_OWN}auth.client.id", Type.STRING, None, "The client's id, for OAuth."),
    key(f"{_OWN}auth.client.secret", Type.PASSWORD, None, "The client's secret, for OAuth."),
    key(f"{_OWN}auth.client.scope", Type.STRING, None, "The requested scope, for OAuth."),
    *(
        key(f"{_OWN}tls.{name}", Type.PASSWORD if name.endswith("password") else Type.STRING, None, "As Kafka's ssl.*.")
        for name in _TLS
    ),
)
"""The settings that Apicurio's converters share."""


def as_confluent(config: Mapping[str, str], side: str) -> dict[str, str]:
    """The config with Confluent's names for what it says; `side`: key or value. Errors: ConfigError."""
    values = APICURIO_SETTINGS.parse(config)
    _refuse_unserved(values)
    strategy = _STRATEGIES[_simple(values[f"{_OWN}artifact-resolver-strategy"])]
    made = {
        "schema.registry.url": _confluent_url(values[URL]),
        "auto.register.schemas": str(values[f"{_OWN}auto-register"]).lower(),
        "use.latest.version": str(values[f"{_OWN}find-latest"]).lower(),
        f"{side}.subject.name.strategy": strategy,
        **_login(values),
        **{f"{PREFIX}ssl.{name}": _plain(found) for name in _TLS if (found := values[f"{_OWN}tls.{name}"])},
    }
    if (group := values[f"{_OWN}artifact.group-id"]) not in (None, "", "default"):
        made[f"{HEADER_PREFIX}X-Registry-GroupId"] = group
    return {**config, **made}


def by_own_names(error: ConfigError) -> ConfigError:
    """The error with Apicurio's name for the registry's URL."""
    problems = [
        Problem(URL if one.key == "schema.registry.url" else one.key, one.value, one.message, one.remedy)
        for one in error.problems
    ]
    return type(error)(problems)


def _refuse_unserved(values: Mapping[str, Any]) -> None:
    problems = []
    for name, (served, why) in _ONLY.items():
        given = values[_OWN + name]
        given = str(given).lower() if isinstance(given, bool) else given
        if given not in (None, "") and _simple(given) not in served:
            remedy = f"Set it to {' or '.join(served)}." if served else f"Leave {_OWN}{name} out."
            problems.append(Problem(_OWN + name, given, f"{why}.", remedy))
    if problems:
        raise ConfigError(problems)


def _simple(name: str) -> str:
    return name.strip().rpartition(".")[2]


def _confluent_url(url: str) -> str:
    """The URL of Confluent's protocol in the registry at this URL."""
    split = urlsplit(url.strip().rstrip("/"))
    path = next((split.path.removesuffix(api) for api in _APIS if split.path.endswith(api)), split.path)
    if split.scheme not in ("http", "https") or not split.hostname or "/api" in path:
        remedy = "Write http://host:port/apis/registry/v3, or another of " + ", ".join(_APIS) + "."
        raise ConfigError(Problem(URL, masked(url), "It is not the URL of an Apicurio Registry.", remedy))
    return f"{split.scheme}://{split.netloc}{path}{_CCOMPAT}"


def _login(values: Mapping[str, Any]) -> dict[str, str]:
    user, endpoint = values[f"{_OWN}auth.username"], values[f"{_OWN}auth.service.token.endpoint"]
    if endpoint:
        names = {"client.id": "client.id", "client.secret": "client.secret", "client.scope": "scope"}
        made = {f"bearer.auth.{other}": _plain(values[f"{_OWN}auth.{name}"]) for name, other in names.items()}
        known = {name: value for name, value in made.items() if value}
        return {"bearer.auth.credentials.source": "OAUTHBEARER", "bearer.auth.issuer.endpoint.url": endpoint, **known}
    if user:
        login = f"{user}:{_plain(values[f'{_OWN}auth.password'])}"
        return {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": login}
    return {}


def _plain(value: Any) -> str:
    return value.value if isinstance(value, Password) else value or ""
