"""The users of Basic authentication: finds their properties file, and reads it."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import bcrypt

from headrace.config.kafka.jaas import LoginModule, parse_jaas, split_option
from headrace.config.problems import ConfigError, Problem
from headrace.config.properties import read_properties
from headrace.config.worker.login_settings import EXTENSIONS, JAAS_FILE, USERS_FILE

SECTION: Final = "KafkaConnect"
MODULE: Final = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"

_HASH: Final = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}")
_BEGINS_AS_HASH: Final = re.compile(r"\$2[abxy]?\$")
_MOST_COST: Final = 15
"""The highest bcrypt cost; one more doubles the time, 12 takes about 0.2 s."""
_LONGEST: Final = 72
"""The bytes of a password that bcrypt uses."""
_EXAMPLE: Final = f'{SECTION} {{ {MODULE} required file="/etc/kafka/users.properties"; }};'


@dataclass(frozen=True)
class Users:
    """Passwords by user, plain or hashed by bcrypt."""

    stored: Mapping[str, str] = field(repr=False)

    def hash_for(self, name: str) -> str | None:
        """The hash to check the user's password with. A user without one gets the costliest hash, if there is any.

        So an answer takes equally long for known and unknown users, and for plain and hashed passwords.
        """
        return self.stored[name] if _HASH.fullmatch(self.stored.get(name, "")) else self._costliest

    @cached_property
    def _costliest(self) -> str | None:
        hashes = [one for one in self.stored.values() if _HASH.fullmatch(one)]
        return max(hashes, key=_cost, default=None)

    def has_plain(self, name: str, password: str) -> bool:
        """True if this is the user's plain password."""
        stored = self.stored.get(name)
        # Digests of equal length, so that the time reveals nothing.
        return hmac.compare_digest(_digest(password), _digest(stored or "")) and stored is not None

    def has_hashed(self, name: str, password: str, hashed: str) -> bool:
        """True if this is the user's password; `hashed`: from `hash_for`. Takes equally long for all users."""
        try:
            matches = bcrypt.checkpw(password.encode()[:_LONGEST], hashed.encode())
        except ValueError:
            return False
        for cost in range(_cost(hashed), _cost(self._costliest or hashed)):  # each takes as long as all before it
            bcrypt.checkpw(b"", f"$2b${cost:02d}${'.' * 53}".encode())
        own = self.stored.get(name, "")
        return matches and own == hashed if _HASH.fullmatch(own) else self.has_plain(name, password)


def _cost(hashed: str) -> int:
    return int(hashed[4:6])


_DIGEST_KEY: Final = secrets.token_bytes(32)


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), key=_DIGEST_KEY).digest()


def read_users(path: Path) -> Users:
    """The users in a file. Errors: ConfigError without passwords."""
    where = str(path)
    try:
        found = read_properties(path)
    except ConfigError as error:
        cause = error.__cause__
        if not isinstance(cause, OSError):  # its text may quote a password
            remedy = "Write user=password, one a line, and \\ as \\\\."
            raise ConfigError(Problem(where, None, "It is not a properties file.", remedy)) from None
        raise
    problems = [Problem(where, None, why, remedy) for why, remedy in _faults(found)]
    if problems:
        raise ConfigError(problems)
    return Users(found)


def _faults(found: Mapping[str, str]) -> list[tuple[str, str]]:
    # Decided: an empty file is refused, although Apache's module lets everybody in with it, because a lost file would
    # open the worker; loses: to switch the login off, the setting has to be removed.
    if not found:
        return [("It has no users.", "Add lines user=password or user=<bcrypt hash>.")]
    faults = []
    for name, stored in found.items():
        shown = _HASH.fullmatch(stored)
        if not stored:
            faults.append((f"The user {name!r} has no password.", "Write user=password."))
        elif shown is None and _BEGINS_AS_HASH.match(stored):
            why = f"What stands for the user {name!r} begins like a bcrypt hash and is none."
            faults.append((why, "A hash has 60 signs; htpasswd -nB user prints one."))
        elif shown is not None and not 4 <= int(shown[1]) <= _MOST_COST:
            why = f"The hash for the user {name!r} has the cost {int(shown[1])}, which takes too long."
            faults.append((why, f"Hash it with a cost of 4 to {_MOST_COST}; 12 is usual."))
    return faults


def users_file(settings: Mapping[str, Any], environment: Mapping[str, str], *, as_apache: bool) -> Path | None:
    """The file of users; `as_apache`: if no setting names it, a JAAS file must, as for Apache's extension.

    Errors: ConfigError with remedies.
    """
    named = settings.get(USERS_FILE)
    if named is not None:
        return _absolute(USERS_FILE, named)
    if not as_apache:
        return None
    option = split_option(environment.get("KAFKA_OPTS", ""))[0]
    key, jaas = (JAAS_FILE, given) if (given := settings.get(JAAS_FILE)) is not None else ("KAFKA_OPTS", option)
    if jaas is None:
        message = "BasicAuthSecurityRestExtension needs a file of users, and no JAAS file names one."
        remedy = (
            f"Set {USERS_FILE} to the file, or KAFKA_OPTS=-D{JAAS_FILE}=<file> in the environment to a JAAS file with "
            f"{_EXAMPLE}"
        )
        raise ConfigError(Problem(EXTENSIONS, None, message, remedy))
    return _absolute(f"file in {jaas}", _in_jaas(key, jaas))


def _in_jaas(key: str, jaas: str) -> str:
    """The file of users in a JAAS file. Errors: ConfigError."""
    try:
        sections = parse_jaas(Path(jaas).read_text(encoding="utf-8"))
    except OSError as error:
        why = f"The JAAS file cannot be read: {error.strerror or error}."
        raise ConfigError(Problem(key, jaas, why, "Check its name and who may read it.")) from error
    except ValueError as error:
        shown = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise ConfigError(Problem(key, jaas, f"It is not a JAAS file: {shown}.", f"Write {_EXAMPLE}")) from None
    modules = sections.get(SECTION)
    if not modules:
        raise ConfigError(Problem(key, jaas, f"The JAAS file has no section {SECTION}.", f"Add {_EXAMPLE}"))
    return _file_of(key, jaas, modules)


def _file_of(key: str, jaas: str, modules: list[LoginModule]) -> str:
    if [one.class_name for one in modules] != [MODULE]:
        named = ", ".join(one.class_name for one in modules)
        why = f"The section {SECTION} has {named}; of login modules, which are Java classes, only {MODULE} is served."
        remedy = "Use it alone; or bearer tokens (rest.bearer.jwks.endpoint.url) where users are kept in a directory."
        raise ConfigError(Problem(key, jaas, why, remedy))
    file = modules[0].options.get("file", "").strip()
    if not file or "${" in file:
        why = f"PropertyFileLoginModule in the section {SECTION} " + (
            "names a file with a variable, which is not resolved." if file else "has no option file."
        )
        raise ConfigError(Problem(key, jaas, why, f"Write {_EXAMPLE}"))
    return file


def _absolute(key: str, file: str) -> Path:
    path = Path(file)
    if not path.is_file():
        why = "It is no file." if path.exists() else "There is no such file, or this user may not look there."
        raise ConfigError(Problem(key, file, why, "Create it with lines user=password or user=<bcrypt hash>."))
    return path
