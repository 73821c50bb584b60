"""The settings of the process that runs Java plugins."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final

from headrace.config.settings import Importance, Setting, Settings, Type
from headrace.config.validators import Check
from headrace.config.values import invalid

HEAP: Final = "java.host.heap"
OPTIONS: Final = "java.host.options"

_SIZE: Final = re.compile(r"[1-9]\d*[kKmMgGtT]?")


def _heap(name: str, value: Any) -> str | None:
    if value is None or _SIZE.fullmatch(value):
        return None
    return invalid(name, value, "It is no size such as 512m or 2g")


def _options(name: str, value: Any) -> str | None:
    try:
        options = shlex.split(value or "")
    except ValueError as error:
        return invalid(name, value, f"It cannot be split: {error}")
    for option in options:
        if not option.startswith("-"):
            why = f"{option} is no option: each begins with -, one with a value has it after = or within quotes"
            return invalid(name, value, why)
    return None


JAVA_HOST: Final = Settings(
    Setting(
        HEAP,
        Type.STRING,
        None,
        Check(_heap, "a number of bytes, or of kilobytes, megabytes or gigabytes with k, m or g after it"),
        Importance.MEDIUM,
        "The most heap of the JVM that Java plugins run in, such as 512m; without it the JVM's own choice, a quarter "
        "of the memory.",
    ),
    Setting(
        OPTIONS,
        Type.STRING,
        "",
        Check(_options, "options of a JVM, separated by spaces, quoted as in a shell"),
        Importance.LOW,
        "Further options of that JVM, such as -Dname=value -XX:MaxMetaspaceSize=256m.",
    ),
)


def jvm_of(settings: Mapping[str, Any]) -> tuple[str | None, list[str]]:
    """The heap and the further options of the JVM; options are split and unquoted as by a shell."""
    return settings[HEAP], shlex.split(settings[OPTIONS])
