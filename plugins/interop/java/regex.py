"""Java's regular expressions: the JVM's own `Pattern`, and a check of settings that needs no JVM.

Decided: a config is refused for faults of structure (unclosed groups, classes and quotes), in Java's words, before a
task starts, because validation does not wait for a JVM. Java finds all other faults when the task's first batch is
prepared, with the same words; loses: an unknown escape or a bad range in a class fails the task, not the config. The
check does not know `#` comments of the flag x.
"""

from __future__ import annotations

import re
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import Column
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError, Problem
from headrace.config.values import invalid
from headrace.plugins.interop.catalyst.java_calls import JavaCalls, java_calls, java_message
from headrace.plugins.interop.catalyst.spark_internals import JAVA_ERRORS, active_context, jvm_of

_REGEX: Final = "java.util.regex."
_compiled: WeakKeyDictionary[JavaCalls, dict[str, Any]] = WeakKeyDictionary()
"""One object for equal patterns, since plans with two objects would count as different."""
_NAMED: Final = re.compile(r"\?<([a-zA-Z][a-zA-Z0-9]*)>")


class _Structure:
    """Groups, classes and quotes of an expression. Errors: ValueError in Java's words if one is not closed."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._names: set[str] = set()
        self._at = 0
        self._open = 0
        begins = True
        while self._at < len(self.pattern):
            char = self.pattern[self._at]
            if begins and char in "*+?":
                raise self._fault(f"Dangling meta character '{char}'", self._at)
            begins = char in "(|"
            self._read(char)
        if self._open:
            raise self._fault("Unclosed group", len(self.pattern))

    def _read(self, char: str) -> None:
        self._at += 1
        match char:
            case "\\":
                self._escape()
            case "[":
                self._class()
            case "(":
                self._group()
            case ")":
                self._open -= 1
                if self._open < 0:
                    raise self._fault("Unmatched closing ')'", self._at - 2)

    def _escape(self) -> None:
        if self._at == len(self.pattern):
            raise self._fault("Unexpected internal error", self._at)
        quote = self.pattern[self._at] == "Q"
        self._at += 1
        if quote:
            end = self.pattern.find(r"\E", self._at)
            self._at = len(self.pattern) if end < 0 else end + 2

    def _class(self) -> None:
        """Read a character class, with those inside it; a first `]` closes nothing."""
        self._at += self.pattern[self._at : self._at + 1] == "^"
        first = True
        while self._at < len(self.pattern):
            char = self.pattern[self._at]
            self._at += 1
            if char == "\\":
                self._escape()
            elif char == "[":
                self._class()
            elif char == "]" and not first:
                return
            first = False
        raise self._fault("Unclosed character class", len(self.pattern) - 1)

    def _group(self) -> None:
        self._open += 1
        named = _NAMED.match(self.pattern, self._at)
        if named is None and self.pattern.startswith("?", self._at):
            self._at += 1  # flags, a look-around, or a non-capturing group
            return
        if named is not None:
            self._at = named.end()
            if named[1] in self._names:
                raise self._fault(f"Named capturing group <{named[1]}> is already defined", self._at - 1)
            self._names.add(named[1])

    def _fault(self, text: str, index: int) -> ValueError:
        near = f" near index {index}" if index >= 0 else ""
        mark = f"\n{' ' * index}^" if 0 <= index < len(self.pattern) else ""
        return ValueError(f"{text}{near}\n{self.pattern}{mark}")


def regex_problem(name: str, value: Any) -> str | None:
    """Return the fault of a setting that is a Java regular expression, in Connect's words; None if there is none."""
    if value is None:
        why = 'Cannot invoke "String.isEmpty()" because "this.pattern" is null'
        return invalid(name, value, f"Invalid regex: {why}")
    try:
        _Structure(value)
    except ValueError as error:
        return invalid(name, value, f"Invalid regex: {error}")
    return None


class JavaRegex:
    """A regular expression, compiled by the running JVM. Errors: ConfigError, in Java's words, if it is invalid."""

    def __init__(self, setting: str, pattern: str) -> None:
        """Compile `pattern`, the value of the key `setting`."""
        java = java_calls()
        known = _compiled.setdefault(java, {})
        try:
            if pattern not in known:
                known[pattern] = _compile(pattern)
        except JAVA_ERRORS as error:
            message = invalid(setting, pattern, f"Invalid regex: {java_message(error)}")
            raise ConfigError(Problem(setting, pattern, message, "Correct the expression.")) from None
        self._pattern = pattern
        self._java, self._constant = java, java.constant(known[pattern], f"{_REGEX}Pattern")

    def matches(self, text: Column) -> Column:
        """True if the whole text matches, as `Matcher.matches`."""
        return self._java.column(self._java.call(self._matcher(text), "matches", "boolean"))

    def replaced(self, text: Column, replacement: str) -> Column:
        """Replace the first match in each text that matches as a whole, as `Matcher.replaceFirst`.

        Other texts stay as they are. The first match need not be the whole text: `t|topic` matches all of `topic`, but
        finds the `t` first.

        Errors: ValueError, in Java's words, for a wrong replacement.
        """
        try:
            # Also matches an empty text, so that the replacement is checked.
            _compile(f"|{self._pattern}").matcher("").replaceFirst(replacement)
        except JAVA_ERRORS as error:
            raise ValueError(java_message(error)) from None
        string = self._java.string(F.lit(replacement))
        new = self._java.call(self._matcher(text), "replaceFirst", "java.lang.String", string)
        return F.when(self.matches(text), self._java.text(new)).otherwise(text)

    def replaced_text(self, text: str, replacement: str) -> str | None:
        """Return `replaced` of this text, None if it does not match. Errors: ValueError, as `replaced`."""
        try:
            matcher = _compile(self._pattern).matcher(text)
            return str(matcher.replaceFirst(replacement)) if matcher.matches() else None
        except JAVA_ERRORS as error:
            raise ValueError(java_message(error)) from None

    def _matcher(self, text: Column) -> Any:
        return self._java.call(self._constant, "matcher", f"{_REGEX}Matcher", self._java.string(text))


def _compile(pattern: str) -> Any:
    """Compile with Java's own class. Errors: `JAVA_ERRORS`."""
    return jvm_of(active_context()).java.util.regex.Pattern.compile(pattern)
