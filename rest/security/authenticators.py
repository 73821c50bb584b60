"""The login methods that a worker's settings switch on.

Decided: an `Authorization` of a supported kind decides alone; a certificate counts only without it. A proxy with a
certificate passes on its users' headers, and a wrong password must not make them the proxy; loses: a client with a
certificate must not send a wrong `Authorization`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from headrace.config.problems import ConfigError, Problem
from headrace.config.worker.login_settings import (
    AUDIENCE,
    CERTIFICATES,
    EXTENSIONS,
    ISSUER,
    JAAS_FILE,
    JWKS,
    MAPPING_RULES,
    OPEN_PATHS,
)
from headrace.rest.security.certificates import PrincipalMapping
from headrace.rest.security.principal import Principal
from headrace.rest.security.refusals import WrongLogin

if TYPE_CHECKING:
    from headrace.rest.security.passwords import Passwords
    from headrace.rest.security.tokens import Tokens

BASIC_AUTH: Final = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
"""Apache's extension, which is built in."""
BASIC_AUTH_NAMES: Final = (BASIC_AUTH, BASIC_AUTH.rpartition(".")[2])


@dataclass(frozen=True)
class Authenticators:
    """The login methods; any event loop may call."""

    passwords: Passwords | None = None
    tokens: Tokens | None = None
    certificates: PrincipalMapping | None = None
    open_paths: frozenset[str] = frozenset()
    """Paths without login."""

    @classmethod
    def of(cls, settings: Mapping[str, Any], environment: Mapping[str, str]) -> Self | None:
        """The login methods of these settings; None if there are none. Errors: ConfigError with remedies."""
        if problems := list(_half(settings)):
            raise ConfigError(problems)
        passwords, tokens = _passwords(settings, environment), _tokens(settings)
        certificates = PrincipalMapping(settings[MAPPING_RULES]) if settings.get(CERTIFICATES) else None
        if passwords is None and tokens is None and certificates is None:
            return None
        return cls(passwords, tokens, certificates, frozenset(settings.get(OPEN_PATHS, ())))

    async def principal(self, authorization: str | None, certificate: str | None, address: str) -> Principal | None:
        """The principal by this header and certificate; None without either. Errors: LoginRefused, Unchecked."""
        scheme, _, credentials = (authorization or "").partition(" ")
        match scheme.lower():
            case "basic" if self.passwords is not None:
                return await self.passwords.principal(credentials, address)
            case "bearer" if self.tokens is not None:
                return await self.tokens.principal(credentials.strip())
        if certificate is not None and self.certificates is not None:
            return Principal(self.certificates.name(certificate))
        if authorization:
            raise WrongLogin("the header Authorization is of no kind that is served")
        return None

    def challenge(self, to_person: bool) -> str | None:
        """The `WWW-Authenticate` header of a 401; None: no header. `to_person`: to who opens a page of the console.

        Decided: Basic is named to persons only, because a browser that asked for a password sends it with every request
        that a page makes below the folder of the asked path; loses: clients that send a password only when asked.
        """
        basic = 'Basic realm="Headrace", charset="UTF-8"' if to_person and self.passwords is not None else ""
        return ", ".join(filter(None, (basic, "" if self.tokens is None else "Bearer"))) or None

    def stop(self) -> None:
        """Ends the threads."""
        if self.passwords is not None:
            self.passwords.stop()
        if self.tokens is not None:
            self.tokens.keys.stop()


def _passwords(settings: Mapping[str, Any], environment: Mapping[str, str]) -> Passwords | None:
    from headrace.rest.security.passwords import Passwords
    from headrace.rest.security.users import read_users, users_file
    from headrace.rest.security.watched_file import WatchedFile

    file = users_file(settings, environment, as_apache=_asks_for_passwords(settings))
    return None if file is None else Passwords(WatchedFile(file, read_users))


def _tokens(settings: Mapping[str, Any]) -> Tokens | None:
    if settings.get(JWKS) is None:
        return None
    from headrace.rest.security.tokens import Tokens  # 0.1 s, for those who need it

    return Tokens.of(settings)


def _half(settings: Mapping[str, Any]) -> Iterator[Problem]:
    """Problems of settings of a login method without the setting that switches it on."""
    beside = {
        JAAS_FILE: (f"{EXTENSIONS}={BASIC_AUTH}", _asks_for_passwords(settings)),
        ISSUER: (f"{JWKS} to the issuer's jwks_uri", settings.get(JWKS)),
        AUDIENCE: (f"{JWKS} to the issuer's jwks_uri", settings.get(JWKS)),
    }
    for key, (needed, there) in beside.items():
        if settings.get(key) and not there:
            yield Problem(key, str(settings[key]), "It asks for a login that is not switched on.", f"Set {needed}.")


def _asks_for_passwords(settings: Mapping[str, Any]) -> bool:
    return any(name in BASIC_AUTH_NAMES for name in settings.get(EXTENSIONS) or ())


def without_certificates(settings: Mapping[str, Any], props: Mapping[str, str]) -> list[Problem]:
    """Problems if certificates are to be logins, but no listener asks clients for one."""
    keys = ("ssl.client.auth", "listeners.https.ssl.client.auth", "admin.listeners.https.ssl.client.auth")
    if not settings.get(CERTIFICATES) or any(props.get(key, "none").strip() != "none" for key in keys):
        return []
    why = "No client is asked for a certificate."
    return [Problem(CERTIFICATES, "true", why, "Set ssl.client.auth to requested or required, with https listeners.")]
