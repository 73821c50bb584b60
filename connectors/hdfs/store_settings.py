"""The settings of a store: HDFS with Kerberos, S3, a local disk.

The part of `store.url` after its first variable belongs to the names of files: a store has one root for all topics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from headrace.config.problems import ConfigError, Problem
from headrace.config.setting_group import HIGH, LONG, LOW, MEDIUM, MID, SHORT, SettingGroup
from headrace.config.settings import Setting, Type
from headrace.config.validators import Range

EMPTY_URL: Final = "Configuration store.url cannot be empty."


def hdfs_settings(group: SettingGroup) -> tuple[Setting, ...]:
    """The settings of Hadoop's file systems, and of Kerberos."""
    return (
        group(
            "store.url",
            Type.STRING,
            None,
            HIGH,
            LONG,
            "Store URL",
            "Where the files are: hdfs://host:8020, hdfs://nameservice (with hadoop.conf.dir), webhdfs://host:9870, "
            "viewfs://…, s3://bucket or s3a://bucket, file:///path on the worker's host. Its path is above topics.dir; "
            "after the host it may contain ${topic} and groups of topic.capture.groups.regex.",
        ),
        group("hdfs.url", Type.STRING, None, MEDIUM, LONG, "HDFS URL", "The old name of store.url, which wins."),
        group(
            "hadoop.conf.dir",
            Type.STRING,
            "",
            HIGH,
            LONG,
            "Hadoop Configuration Directory",
            "A directory on the worker's host that holds core-site.xml and hdfs-site.xml. Name services of a "
            "highly available HDFS are declared there.",
        ),
        group(
            "hadoop.home",
            Type.STRING,
            "",
            LOW,
            LONG,
            "Hadoop Home",
            "Accepted for configs of Confluent's connector. Hadoop's client comes with Spark.",
        ),
        group(
            "hadoop.user",
            Type.STRING,
            "",
            LOW,
            MID,
            "Hadoop User",
            "Headrace's: who the worker is to a cluster without Kerberos; empty: as HADOOP_USER_NAME says, "
            "else the user that runs the worker.",
        ),
        group(
            "hdfs.authentication.kerberos",
            Type.BOOLEAN,
            False,
            HIGH,
            SHORT,
            "HDFS Authentication Kerberos",
            "Whether HDFS asks for Kerberos. All connectors of a worker share one identity.",
            dependents=("connect.hdfs.principal", "connect.hdfs.keytab", "hdfs.namenode.principal"),
        ),
        group(
            "connect.hdfs.principal",
            Type.STRING,
            "",
            HIGH,
            MID,
            "Connect Kerberos Principal",
            "Who logs in, such as connect/_HOST@EXAMPLE.COM; _HOST stands for the name of the worker's host.",
        ),
        group(
            "connect.hdfs.keytab",
            Type.STRING,
            "",
            HIGH,
            LONG,
            "Connect Kerberos Keytab",
            "The file on the worker's host that holds the principal's key.",
        ),
        group(
            "hdfs.namenode.principal",
            Type.STRING,
            "",
            HIGH,
            MID,
            "HDFS NameNode Kerberos Principal",
            "The name node's principal; empty: as hdfs-site.xml has it.",
        ),
        group(
            "kerberos.ticket.renew.period.ms",
            Type.LONG,
            3_600_000,
            LOW,
            SHORT,
            "Kerberos Ticket Renew Period (ms)",
            "How often the login is renewed from the keytab.",
            Range(1),
        ),
    )


def split_url(values: Mapping[str, Any]) -> tuple[str, str]:
    """Splits the URL before its first variable, at a slash; the second part has variables or is empty.

    Errors: ConfigError if there is no URL, or a variable in the name of its host.
    """
    url: str = (values["store.url"] or values["hdfs.url"] or "").strip()
    key = "store.url" if values["store.url"] else "hdfs.url"
    if not url:
        raise ConfigError(Problem("store.url", url, EMPTY_URL, "Set store.url to a URL such as hdfs://host:8020."))
    if not re.match(r"[a-z][a-z0-9+.-]*:/", url):
        text = "This is no URL"
        raise ConfigError(
            Problem(key, url, text, "Begin it with hdfs://, webhdfs://, viewfs://, file:/, s3:// or s3a://.")
        )
    if "${" not in url:
        return url, ""
    begin = url.index("${")
    root = url[: url.rindex("/", 0, begin) + 1]
    if re.fullmatch(r"[a-z0-9+.-]+://?", root) and not root.startswith("file:"):
        text = "A variable stands where the host or the bucket does"
        raise ConfigError(Problem(key, url, text, "Have variables in the path only, after the host."))
    return root, url[len(root) :]
