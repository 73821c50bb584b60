"""The settings that source and sink share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import Offer, Setting, Type
from headrace.config.time_zones import ZONE
from headrace.config.validators import Check, OneOfIgnoringCase, Range
from headrace.config.values import invalid


@dataclass(frozen=True)
class When:
    """Shows a setting only if another has one of these values, and recommends `values` for it."""

    other: str
    has: tuple[Any, ...]
    values: tuple[Any, ...] = ()

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        """The values."""
        return self.values

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        """True if the other has one of its values."""
        value = parsed.get(self.other)
        return (value.lower() if isinstance(value, str) else value) in self.has


def _credentials_objection(name: str, value: Any) -> str | None:
    if not value or value.rpartition(".")[2] == "DefaultJdbcCredentialsProvider":
        return None
    why = "a Java class cannot be run here; let connection.password be a variable of a config provider"
    return invalid(name, value, why)


def connection_settings(group: SettingGroup, dependents: tuple[str, ...] = ()) -> tuple[Setting, ...]:
    """The settings of a connection; `dependents` depend on the URL."""
    return (
        group(
            "connection.url",
            Type.STRING,
            "",
            HIGH,
            LONG,
            "JDBC URL",
            "Where the database is: jdbc:postgresql://host:5432/name, jdbc:mariadb://host:3306/name, "
            "jdbc:mysql://host:3306/name, jdbc:sqlite:/path/to/file.db. The worker's jdbc.allowed.schemes bounds it. "
            "Put no password into it.",
            dependents=dependents,
        ),
        group("connection.user", Type.STRING, None, HIGH, MID, "JDBC User", "The user that connects."),
        group(
            "connection.password",
            Type.PASSWORD,
            None,
            HIGH,
            SHORT,
            "JDBC Password",
            "The user's password. A variable such as ${file:/secrets/db:password} keeps it out of Kafka.",
        ),
        group(
            "jdbc.credentials.provider.class",
            Type.STRING,
            None,
            LOW,
            LONG,
            "JDBC Credentials Provider Class",
            "Of Confluent's classes only the default, which gives connection.user and connection.password.",
            Check(_credentials_objection, "no class, or Confluent's default"),
        ),
        group(
            "connection.attempts",
            Type.INT,
            3,
            LOW,
            SHORT,
            "JDBC connection attempts",
            "How many attempts to connect are made before the task takes the database for unreachable.",
            Range(1),
        ),
        group(
            "connection.backoff.ms",
            Type.LONG,
            10_000,
            LOW,
            SHORT,
            "JDBC connection backoff in milliseconds",
            "How long to wait before the next try to connect.",
            Range(0),
        ),
        group(
            "dialect.name",
            Type.STRING,
            "",
            LOW,
            LONG,
            "Database Dialect",
            "Which database it is, where the URL does not say so or says it wrong; empty: by the URL.",
            recommender=Offer(("", "MySqlDatabaseDialect", "PostgreSqlDatabaseDialect", "SqliteDatabaseDialect")),
        ),
    )


def quoting(group: SettingGroup) -> Setting:
    """`quote.sql.identifiers`."""
    return group(
        "quote.sql.identifiers",
        Type.STRING,
        "ALWAYS",
        MEDIUM,
        MID,
        "Quote Identifiers",
        "always: names of tables and columns are taken literally. never: in the case that the database gives to names "
        "without quotes, lower case in PostgreSQL. In statements they are quoted either way, so that no name can be "
        "read as SQL.",
        OneOfIgnoringCase("always", "never"),
        recommender=Offer(("always", "never")),
    )


def database_zone(group: SettingGroup, text: str) -> Setting:
    """`db.timezone`."""
    return group("db.timezone", Type.STRING, "UTC", MEDIUM, MID, "DB time zone", text, ZONE)


def calendar(group: SettingGroup) -> Setting:
    """`date.calendar.system`."""
    return group(
        "date.calendar.system",
        Type.STRING,
        "LEGACY",
        LOW,
        MID,
        "Date Calendar System",
        "Accepted for configs of Confluent's connector. Dates are those of the Gregorian calendar, also before 1582, "
        "as they are in the database.",
        OneOfIgnoringCase("LEGACY", "PROLEPTIC_GREGORIAN"),
        recommender=Offer(("LEGACY", "PROLEPTIC_GREGORIAN")),
    )


def by_other_names(config: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """The config with another connector's names replaced by ours; a value under our name wins."""
    renamed = {ours: config[theirs] for theirs, ours in names.items() if theirs in config}
    return {**renamed, **config}
