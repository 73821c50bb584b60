"""Reads JAAS files as Java's `Configuration` does: sections of login modules with their options.

KafkaConnect {
    org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required
    file="/etc/kafka/users.properties";
};
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_OPTION: Final = "-Djava.security.auth.login.config="
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(r'\s+|//[^\n]*|/\*.*?\*/|(?P<text>"(?:\\.|[^"\\\n])*"|[\w.$-]+)|(?P<sign>[{};=])', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)")


@dataclass(frozen=True)
class LoginModule:
    """A login module of a section; its options may contain passwords."""

    class_name: str
    flag: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.class_name!r}, {self.flag!r})"


def parse_jaas(text: str) -> dict[str, list[LoginModule]]:
    """The login modules of each section, by its name. Errors: ValueError, which quotes nothing of the text."""
    return _Parser(text).sections()


def split_option(kafka_opts: str) -> tuple[str | None, bool]:
    """The JAAS file in KAFKA_OPTS, None without one; and true if there are other options."""
    try:
        options = shlex.split(kafka_opts)
    except ValueError:  # an open quote: split as the shell of Apache's script would
        options = kafka_opts.split()
    named = [one.removeprefix(_OPTION) for one in options if one.startswith(_OPTION)]
    return (_path(named[-1]) if named else None), len(named) < len(options)


def _path(value: str) -> str:
    """The path of a file's name or `file:` URL; Java's second `=` (use this file only) is cut."""
    plain = value.removeprefix("=")
    return unquote(urlsplit(plain).path) if plain.startswith("file:") else plain


def is_for_clients(path: str) -> bool:
    """True if the file has a login for Kafka's clients."""
    try:
        return "KafkaClient" in parse_jaas(Path(path).read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return False


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, int]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            line = text.count("\n", 0, at) + 1
            if found is None:
                raise ValueError(f"line {line} has a sign or a quote that does not belong there")
            if found.lastgroup:
                self._tokens.append((found[0], line))
            at = found.end()
        self._next = 0

    def sections(self) -> dict[str, list[LoginModule]]:
        found: dict[str, list[LoginModule]] = {}
        while self._next < len(self._tokens):
            name = self._text("the name of a section")
            self._sign("{")
            modules = []
            while not self._is("}"):
                modules.append(self._module())
            self._sign("}")
            self._sign(";")
            if name in found:
                raise ValueError(f"the section {name} is there twice")
            found[name] = modules
        return found

    def _module(self) -> LoginModule:
        name, flag = self._text("a login module's class"), self._text("required or another flag").lower()
        if flag not in _FLAGS:
            raise ValueError(f"what follows a login module's class must be one of {', '.join(_FLAGS)}")
        options = {}
        while not self._is(";"):
            key = self._text("an option")
            self._sign("=")
            options[key] = self._text("an option's value")
        self._sign(";")
        return LoginModule(name, flag, options)

    def _is(self, sign: str) -> bool:
        return self._next < len(self._tokens) and self._tokens[self._next][0] == sign

    def _sign(self, sign: str) -> None:
        if not self._is(sign):
            raise ValueError(f"{self._where()}: {sign} is missing")
        self._next += 1

    def _text(self, what: str) -> str:
        if self._next >= len(self._tokens) or self._tokens[self._next][0] in "{};=":
            raise ValueError(f"{self._where()}: {what} is missing")
        text = self._tokens[self._next][0]
        self._next += 1
        return _ESCAPED.sub(r"\1", text[1:-1]) if text.startswith('"') else text

    def _where(self) -> str:
        return f"line {self._tokens[self._next][1]}" if self._next < len(self._tokens) else "at the end"
