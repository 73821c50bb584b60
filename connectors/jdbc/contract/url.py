"""A JDBC URL in its parts, and the access to a database that a connector's config gives.

The text of a `JdbcUrl` has no secret: user, password and all parameters are taken out of it. A driver gets a URL that
is put together anew, so that a user's URL cannot undo what is forced on a driver.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, unquote_plus

from headrace.config.settings import Password

ALLOWED_SCHEMES: Final = "jdbc.allowed.schemes"
"""The worker's property: the subprotocols that connectors may use."""

SHOWN_PASSWORD: Final = "has a password in it, which is shown wherever the config is"
MOVE_IT: Final = "move it to connection.password"
_PREFIX: Final = "connection."
_HOST_NAME: Final = re.compile(r"[\w.%-]*")
_INSTANCE_NAME: Final = re.compile(r"[\w.%-]*(\\[\w$#-]+)?")
"""SQL Server's: a host may run several servers."""
_LOGINS: Final = frozenset("@?;=(")
"""A text with one of these may have a login in it."""
_NOT_FOR_DRIVERS: Final = frozenset(
    {
        "url",
        "user",
        "username",
        "password",
        "attempts",
        "backoff.ms",
        "provider",
        "restart.on.errors",
        "pool.min_size",
        "pool.max_size",
        "pool.acquire_increment",
        "pool.timeout",
    }
)


class ServerAddress(NamedTuple):
    """A server's address; without port: the database's usual one."""

    name: str
    port: int | None = None

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"


@dataclass(frozen=True)
class JdbcUrl:
    """A JDBC URL; its text (`str`) has neither login nor parameters."""

    subprotocol: str
    hosts: tuple[ServerAddress, ...] = ()
    database: str | None = None
    """For SQLite the file's path."""
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    user: str | None = None
    password: Password | None = None

    @classmethod
    def parse(cls, text: str) -> JdbcUrl:
        """Parses `jdbc:<subprotocol>:<subname>`. Errors: ValueError, without the text's parameters and login."""
        subprotocol, subname = subprotocol_of(text), text.strip().split(":", 2)[-1]
        if not text.strip():
            raise ValueError("connection.url is empty, and nothing else says where the database is")
        if not subprotocol:
            raise ValueError(f"Not a valid JDBC URL: {harmless(text)}")
        if subprotocol == "sqlite":
            path, _, query = subname.partition("?")
            return cls(subprotocol, database=path, parameters=_parameters(query, "&"))
        try:
            return _network(subprotocol, subname)
        except ValueError as error:
            raise ValueError(f"Not a valid JDBC URL: {harmless(text)}: {error}") from None

    def __str__(self) -> str:
        if self.subprotocol == "sqlite":
            return f"jdbc:sqlite:{self.database}"
        database = quote(self.database or "", safe="")
        return f"jdbc:{self.subprotocol}://{','.join(map(str, self.hosts))}/{database}"


@dataclass(frozen=True)
class DatabaseAccess:
    """Everything needed to connect: the URL, the login and the drivers' other properties. Picklable."""

    url: JdbcUrl
    user: str | None = None
    password: Password | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The URL's parameters, overridden by `connection.*` without the prefix."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> DatabaseAccess:
        """Builds it from a connector's config, or from parsed settings with whatever else begins with `connection.`.

        Errors: ValueError for a malformed URL.
        """
        url = JdbcUrl.parse(config.get("connection.url") or "")
        extra = {key.removeprefix(_PREFIX): str(value) for key, value in config.items() if key.startswith(_PREFIX)}
        properties = {**url.parameters, **{k: v for k, v in extra.items() if k not in _NOT_FOR_DRIVERS}}
        user = config.get("connection.user") or config.get("connection.username") or url.user
        password = config.get("connection.password", url.password)
        if isinstance(password, str):
            password = Password(password)
        return cls(url, user, password, properties)

    def __str__(self) -> str:
        return str(self.url) if self.user is None else f"{self.url} as user {self.user}"


def subprotocol_of(text: str) -> str:
    """The database's kind in `jdbc:<subprotocol>:<subname>`, in lower case; empty for other texts."""
    scheme, _, rest = text.strip().partition(":")
    subprotocol, colon, _ = rest.partition(":")
    return subprotocol.lower() if scheme.lower() == "jdbc" and colon else ""


def _network(subprotocol: str, subname: str) -> JdbcUrl:
    """Parses `//user:password@host:port,host:port/database?key=value&…`, `database?…` on this host, or `;key=value`."""
    mode, slashes, rest = subname.partition("//")
    if not slashes:
        mode, rest = "", f"/{subname.removeprefix('/')}"
    if mode.rstrip(":") not in ("", "sequential", "loadbalance", "replication", "microsoft"):
        raise ValueError("what is in front of // is no way to choose among servers that is known here")
    separator = ";" if subprotocol in ("sqlserver", "microsoft") else "&"
    place, _, query = rest.partition("?" if separator == "&" else separator)
    if ";" in place:
        raise ValueError("parameters begin with ? here, and not with ;, which in a login is written %3B")
    authority, _, database = place.partition("/")
    login, _, hosts = authority.rpartition("@")
    names = _HOST_NAME if separator == "&" else _INSTANCE_NAME
    decode = unquote_plus if subprotocol == "postgresql" else unquote
    parameters = {decode(key): decode(value) for key, value in _parameters(query, separator).items()}
    user, _, secret = (unquote(part) for part in login.partition(":"))
    for key in [key for key in parameters if key.lower() in ("user", "password")]:
        value = parameters.pop(key)
        user, secret = (value, secret) if key.lower() == "user" else (user, value)
    return JdbcUrl(
        subprotocol,
        tuple(_host(one, names) for one in hosts.split(",") if one) or (ServerAddress("localhost"),),
        decode(database) or parameters.pop("databaseName", None),
        parameters,
        user or None,
        Password(secret) if secret else None,
    )


def _host(text: str, names: re.Pattern[str]) -> ServerAddress:
    """Parses `name`, `name:port`, `[v6 address]:port`."""
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        name, _, port = text.partition(":")
        if not names.fullmatch(name):
            # As in MySQL's (host=…,password=…), which would be shown for a host's name.
            raise ValueError("a host's name has a character that none can have: write //host:port/database")
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError("a port is no number from 1 to 65535")
    return ServerAddress(name or "localhost", int(port) if port else None)


def _parameters(query: str, separator: str) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in query.split(separator) if pair)
    return {key: value for key, _, value in pairs}


def harmless(text: str) -> str:
    """The part of a text, perhaps no URL, that may be shown: its beginning, if a login or a parameter may follow."""
    return f"{':'.join(text.split(':')[:2])}:…" if _LOGINS & set(text) else text
