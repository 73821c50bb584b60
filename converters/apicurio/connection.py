"""The connection to an Apicurio Registry: its URL, login, TLS, proxy and retries, by Apicurio's names.

The client is that of every registry (`converters/registry/http.py`); `client_config` names its settings.
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

OWN: Final = "apicurio.registry."
URL: Final = f"{OWN}url"
_VERSION: Final = f"{OWN}url.version"
_V2: Final = "/apis/registry/v2"
_V3: Final = "/apis/registry/v3"
_APIS: Final = (_V2, _V3, "/apis/ccompat/v6", "/apis/ccompat/v7", "/apis/ccompat/v8")
_HEADERS_OF_2X: Final = f"{OWN}request.headers."
_LOGIN: Final = ("username", "password", "service.token.endpoint", "client.id", "client.secret", "client.scope")
_SECRET: Final = ("password", "client.secret", "client-key", "certificates", "client-certificate")
_STORES: Final[Mapping[str, str]] = {
    **{
        f"{store}.{name}": f"ssl.{store}.{name}"
        for store in ("truststore", "keystore")
        for name in ("location", "password", "type")
    },
    "certificates": "ssl.truststore.certificates",
    "client-certificate": "ssl.keystore.certificate.chain",
    "client-key": "ssl.keystore.key",
}
"""The settings below `tls.`, and what they are called by Kafka's clients."""
_NOT_SERVED: Final[Mapping[str, tuple[str, str]]] = {
    "tls.trust-all": ("The registry's certificate is always verified", "Name its authority in tls.truststore.*."),
    "proxy.username": ("A proxy with a login is not served", "Name a proxy without one."),
}
"""Settings that are refused unless they are empty or false: the reason, and what to do."""


def _type_of(name: str) -> Type:
    return Type.PASSWORD if name.endswith(_SECRET) else Type.STRING


CONNECTION_SETTINGS: Final = Settings(
    Setting(URL, Type.STRING, REQUIRED, None, Importance.HIGH, "URL of the registry's own API, v2 or v3."),
    key(_VERSION, Type.STRING, None, "The version of the API, 2 or 3; by default that of the URL, else 3."),
    *(key(f"{OWN}auth.{name}", _type_of(name), None, "The login: a user, or a client of OAuth.") for name in _LOGIN),
    *(key(f"apicurio.auth.{name}", _type_of(name), None, f"The name in 2.x of auth.{name}.") for name in _LOGIN),
    *(key(f"{OWN}tls.{name}", _type_of(name), None, f"As Kafka's {kafkas}.") for name, kafkas in _STORES.items()),
    flag(f"{OWN}tls.verify-host", True, "Compare the registry's name with its certificate."),
    key(f"{OWN}proxy.host", Type.STRING, None, "HTTP proxy for requests to the registry."),
    key(f"{OWN}proxy.port", Type.INT, None, "The proxy's port."),
    key(f"{OWN}retry-count", Type.LONG, 3, "How often a request is retried after 408, 429, 5xx and I/O errors."),
    key(f"{OWN}retry-backoff-ms", Type.LONG, 300, "Longest pause before the first retry; it doubles with each retry."),
    *(key(OWN + name, Type.STRING, None, "Not supported.") for name in _NOT_SERVED),
)


def client_config(config: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, str]:
    """The settings of the registry's client, by its own names; `values`: `config` parsed. Errors: ConfigError."""
    for name, (why, remedy) in _NOT_SERVED.items():
        if (values[OWN + name] or "false").strip().lower() != "false":
            raise ConfigError(Problem(OWN + name, None, f"{why}.", remedy))
    made = {
        "schema.registry.url": core_url(values)[0],
        "max.retries": str(values[f"{OWN}retry-count"]),
        "retries.wait.ms": str(values[f"{OWN}retry-backoff-ms"]),
        **_login(values),
        **{f"{PREFIX}{kafkas}": found for name, kafkas in _STORES.items() if (found := _plain(values, f"tls.{name}"))},
        **{name: str(found) for name in ("proxy.host", "proxy.port") if (found := values[OWN + name])},
    }
    for store, names in (("truststore", ("certificates",)), ("keystore", ("client-certificate", "client-key"))):
        if any(values[f"{OWN}tls.{name}"] for name in names):
            made[f"{PREFIX}ssl.{store}.type"] = "PEM"
    if not values[f"{OWN}tls.verify-host"]:
        made[f"{PREFIX}ssl.endpoint.identification.algorithm"] = ""
    for name, value in config.items():
        if name.startswith(_HEADERS_OF_2X):
            made[HEADER_PREFIX + name.removeprefix(_HEADERS_OF_2X)] = value
    return made


def by_own_names(error: ConfigError) -> ConfigError:
    """The error with Apicurio's names for the client's settings."""
    names = {
        "schema.registry.url": URL,
        "bearer.auth.issuer.endpoint.url": f"{OWN}auth.service.token.endpoint",
        "bearer.auth.client.id": f"{OWN}auth.client.id",
        "bearer.auth.client.secret": f"{OWN}auth.client.secret",
        "proxy.host": f"{OWN}proxy.host",
        "proxy.port": f"{OWN}proxy.port",
        "max.retries": f"{OWN}retry-count",
        "retries.wait.ms": f"{OWN}retry-backoff-ms",
        **{f"{PREFIX}{kafkas}": f"{OWN}tls.{name}" for name, kafkas in _STORES.items()},
    }
    problems = [Problem(names.get(one.key, one.key), one.value, one.message, one.remedy) for one in error.problems]
    return type(error)(problems)


def core_url(values: Mapping[str, Any]) -> tuple[str, bool]:
    """The URL of the registry's own API, and true if that is v3. Errors: ConfigError."""
    url = values[URL]
    split = urlsplit(url.strip().rstrip("/"))
    found = next((api for api in _APIS if split.path.endswith(api)), "")
    path = split.path.removesuffix(found)
    if split.scheme not in ("http", "https") or not split.hostname or "/api" in path:
        remedy = f"Write http://host:port{_V3}, or {_V2} for a registry of 2.x."
        raise ConfigError(Problem(URL, masked(url), "It is not the URL of an Apicurio Registry.", remedy))
    version = (values[_VERSION] or ("2" if found == _V2 else "3")).strip().lower().removeprefix("v")
    if version[:1] not in ("2", "3"):
        raise ConfigError(Problem(_VERSION, values[_VERSION], "It is not known.", "Set it to 2 or 3."))
    is_v3 = version.startswith("3")
    return f"{split.scheme}://{split.netloc}{path}{_V3 if is_v3 else _V2}", is_v3


def _login(values: Mapping[str, Any]) -> dict[str, str]:
    given = {name: _plain(values, f"auth.{name}") or _text(values[f"apicurio.auth.{name}"]) for name in _LOGIN}
    if given["service.token.endpoint"]:
        made = {
            "bearer.auth.credentials.source": "OAUTHBEARER",
            "bearer.auth.issuer.endpoint.url": given["service.token.endpoint"],
            "bearer.auth.client.id": given["client.id"],
            "bearer.auth.client.secret": given["client.secret"],
            "bearer.auth.scope": given["client.scope"],
        }
        return {name: value for name, value in made.items() if value}
    if given["username"]:
        login = f"{given['username']}:{given['password']}"
        return {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": login}
    return {}


def _plain(values: Mapping[str, Any], name: str) -> str:
    return _text(values[OWN + name])


def _text(value: Any) -> str:
    return value.value if isinstance(value, Password) else value or ""
