"""The classes, databases and files that a catalog's properties may name.

Iceberg loads many classes by name, and drivers read files and load code by parameters. The driver's JVM is shared by
all connectors of a worker, so only what is known to do no harm is passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from headrace.config.problems import Problem

_CATALOGS: Final = frozenset(
    f"org.apache.iceberg.{name}"
    for name in (
        *("hadoop.HadoopCatalog", "hive.HiveCatalog", "jdbc.JdbcCatalog"),
        *("rest.RESTCatalog", "aws.glue.GlueCatalog", "nessie.NessieCatalog"),
    )
)
_TYPES: Final = ("hadoop", "hive", "jdbc", "rest", "glue", "nessie")
_FILE_IO: Final = frozenset(
    f"org.apache.iceberg.{name}" for name in ("hadoop.HadoopFileIO", "aws.s3.S3FileIO", "io.ResolvingFileIO")
)
_CLASS: Final = re.compile(r"[A-Za-z_]\w*(\.\w+)*\.[A-Z]\w*(\$\w+)?")
"""The form of a Java class name with a package."""
_NAMES_CLASS: Final = re.compile(r"(^|[.-])(impl|class|factory|provider)$|-impl$|auth\.type$", re.I)
_OWN: Final = ("org.apache.iceberg.", "software.amazon.awssdk.auth.credentials.")
_OF_HADOOP: Final = ("org.apache.hadoop.",)
_RUNS: Final = re.compile(r"(^|\.)(command|script)(\.file\.name)?$")
"""The keys of Hadoop's that name a program, such as net.topology.script.file.name."""
_WORDS: Final = frozenset({"none", "basic", "oauth2", "sigv4", "apache", "urlconnection"})
"""Values of settings that name a class or one of these."""

_JDBC: Final = re.compile(r"jdbc:(postgresql|mysql|mariadb)://[\w.:,\[\]-]+/[\w.%-]*(?:\?(.*))?", re.S)
_SQLITE: Final = re.compile(r"jdbc:sqlite:(/[^?:]+)")
_PARAMETERS: Final = frozenset(
    (
        *("user", "password", "currentschema", "applicationname", "sslmode", "ssl", "usessl", "requiressl"),
        *("connecttimeout", "sockettimeout", "logintimeout", "tcpkeepalive", "permitmysqlscheme", "targetservertype"),
    )
)
"""Parameters of drivers that load no code, read no file and lead to no other host, in lower case."""
_OF_ICEBERG: Final = frozenset({"jdbc.schema-version", "jdbc.strict-mode", "jdbc.init-catalog-tables"})


def is_class_allowed(name: str) -> bool:
    """Return True for a class of Iceberg's own."""
    return name.startswith(_OWN)


def class_problems(
    prefix: str, properties: Mapping[str, str], hadoop_prefix: str, hadoop: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield the problems of properties that name a class."""
    kind, catalog = properties.get("type"), properties.get("catalog-impl")
    if kind is not None and kind.lower() not in _TYPES:
        yield Problem(prefix + "type", kind, "No such type of catalog is served.", f"Use one of {', '.join(_TYPES)}.")
    if catalog is not None and catalog not in _CATALOGS:
        yield _refused(prefix + "catalog-impl", catalog, _CATALOGS)
    if (file_io := properties.get("io-impl")) is not None and file_io not in _FILE_IO:
        yield _refused(prefix + "io-impl", file_io, _FILE_IO)
    for key, value in properties.items():
        if key not in ("catalog-impl", "io-impl") and _is_foreign(key, value, _OWN):
            yield _not_run(prefix + key, value)
    for key, value in hadoop.items():
        if _RUNS.search(key):
            why = "It names a program that Hadoop's client runs."
            yield Problem(hadoop_prefix + key, value, why, "Leave it out: no program is run for a connector.")
        if _is_foreign(key, value, _OF_HADOOP):
            yield _not_run(hadoop_prefix + key, value)


def _is_foreign(key: str, value: str, own: tuple[str, ...]) -> bool:
    names = [name.strip() for name in value.split(",")]
    foreign = [name for name in names if not name.startswith(own) and name.lower() not in _WORDS]
    is_class = _NAMES_CLASS.search(key) is not None
    return any(_CLASS.fullmatch(name) or (is_class and not name.isdigit()) for name in foreign)


def _refused(key: str, value: str, known: frozenset[str]) -> Problem:
    return Problem(key, value, "No such class is served.", f"Use one of {', '.join(sorted(known))}.")


def _not_run(key: str, value: str) -> Problem:
    why = "It names a class that is neither Iceberg's nor a client of Amazon's credentials."
    return Problem(key, value, why, "Leave it out: classes of others are not run in the driver.")


def jdbc_problems(prefix: str, properties: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the problems of a JDBC catalog: other databases, and parameters that are not known to do no harm."""
    uri = properties.get("uri", "")
    if uri.startswith("jdbc:"):
        match = _JDBC.fullmatch(uri)
        if match is None and _SQLITE.fullmatch(uri) is None:
            why = "It is no URL of a database that is served."
            advice = (
                "Use jdbc:postgresql://host/database, jdbc:mariadb://host/database, jdbc:mysql://host/database or "
                "jdbc:sqlite:/path, user and password in iceberg.catalog.jdbc.user and jdbc.password."
            )
            yield Problem(prefix + "uri", None, why, advice)
        for one in re.split("[&;]", (match and match[2]) or ""):
            yield from _parameter_problems(prefix + "uri", unquote(one.partition("=")[0]))
    for key in properties:
        if key.startswith("jdbc.") and key not in _OF_ICEBERG:
            yield from _parameter_problems(prefix + key, key.removeprefix("jdbc."))


def _parameter_problems(key: str, name: str) -> Iterator[Problem]:
    if name and name.lower() not in _PARAMETERS:
        why = f"The driver's parameter {name} is not passed on: it may load code, read files or lead elsewhere."
        yield Problem(key, None, why, f"Leave it out; known are {', '.join(sorted(_PARAMETERS))}.")


def local_path(value: str, is_local: bool) -> str | None:
    """Return the local path that a value names; None if it names none.

    `is_local`: True if a path without a scheme is a local one.
    """
    if (sqlite := _SQLITE.fullmatch(value)) is not None:
        return sqlite[1]
    if value.lower().startswith("file:"):
        return unquote(urlsplit(value).path) or "/"
    return value if is_local and value.startswith("/") else None
