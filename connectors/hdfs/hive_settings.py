"""The settings of the tables in Hive's metastore."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.config.setting_group import HIGH, LONG, LOW, SHORT, SettingGroup
from headrace.config.settings import Setting, Type


@dataclass(frozen=True)
class HiveSettings:
    """The metastore's address, and the tables' names."""

    metastore_uris: str
    conf_dir: str | None
    database: str
    table_name: str
    """With `${topic}`."""

    def table_of(self, topic: str) -> str:
        """Return the name of a topic's table, in small letters: Hive knows no others."""
        return self.table_name.replace("${topic}", topic).replace(".", "_").replace("-", "_").lower()


def hive_settings(group: SettingGroup) -> tuple[Setting, ...]:
    """The settings, by Confluent's names."""
    return (
        group(
            "hive.integration",
            Type.BOOLEAN,
            False,
            HIGH,
            SHORT,
            "Hive Integration",
            "Whether a table in Hive's metastore is kept for each topic.",
            dependents=("hive.metastore.uris", "hive.conf.dir", "hive.home", "hive.database", "hive.table.name"),
        ),
        group(
            "hive.metastore.uris",
            Type.STRING,
            "",
            HIGH,
            LONG,
            "Hive Metastore URIs",
            "Where the metastore is: thrift://host:9083; empty: as hive-site.xml in hive.conf.dir has it.",
        ),
        group(
            "hive.conf.dir",
            Type.STRING,
            "",
            HIGH,
            LONG,
            "Hive configuration directory",
            "A directory on the worker's host that holds hive-site.xml.",
        ),
        group(
            "hive.home",
            Type.STRING,
            "",
            LOW,
            LONG,
            "Hive home directory",
            "Accepted for configs of Confluent's connector. Hive's client comes with Spark.",
        ),
        group("hive.database", Type.STRING, "default", HIGH, SHORT, "Hive database", "The database of the tables."),
        group(
            "hive.table.name",
            Type.STRING,
            "${topic}",
            LOW,
            LONG,
            "Hive table name",
            "What the table of a topic is called; must contain ${topic}. Dots and hyphens become underscores.",
        ),
    )


def hive_of(values: Mapping[str, Any]) -> HiveSettings | None:
    """The settings of Hive's tables; None if no table is kept."""
    if not values["hive.integration"]:
        return None
    uris, conf_dir = values["hive.metastore.uris"], values["hive.conf.dir"] or None
    return HiveSettings(uris, conf_dir, values["hive.database"], values["hive.table.name"])
