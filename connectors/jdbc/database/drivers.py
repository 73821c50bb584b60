"""The JVM's drivers: the jar of each, and the remedy if it is missing.

Those of PostgreSQL, MariaDB (which serves MySQL, too) and SQLite are fetched with Spark's jars (`headrace.config.jars`)
and are on the class path from the start: it is fixed, and archived, when Spark's JVM starts.
"""

from __future__ import annotations

from typing import Final

from headrace.config.jars import pinned

_OURS: Final = {
    "org.postgresql.Driver": "postgresql",
    "org.mariadb.jdbc.Driver": "mariadb-java-client",
    "org.sqlite.JDBC": "sqlite-jdbc",
}
_OTHERS: Final = {
    "com.ibm.db2.jcc.DB2Driver": "com.ibm.db2:jcc",
    "com.microsoft.sqlserver.jdbc.SQLServerDriver": "com.microsoft.sqlserver:mssql-jdbc",
    "com.mysql.cj.jdbc.Driver": "com.mysql:mysql-connector-j",
    "com.sap.db.jdbc.Driver": "com.sap.cloud.db.jdbc:ngdbc",
    "oracle.jdbc.OracleDriver": "com.oracle.database.jdbc:ojdbc11",
}
"""Their names on Maven Central. The operator fetches them and accepts their licences."""


def missing_driver(class_name: str) -> str:
    """The message and remedy if the driver of this class is missing."""
    artifact = _OURS.get(class_name)
    if artifact is not None:
        jar = next(jar for jar in pinned("spark") if jar.artifact == artifact)
        return (
            f"the JDBC driver {class_name} ({jar.coordinates}) is not on the class path of Spark's driver: run "
            "`python -m headrace.plugins.interop.jvm.jars spark` and start the worker again"
        )
    where = f" ({_OTHERS[class_name]} on Maven Central)" if class_name in _OTHERS else ""
    return (
        f"the JDBC driver {class_name} is not on the class path of Spark's driver: get its jar{where} and set "
        "spark.driver.extraClassPath=/path/to/driver.jar in the worker's properties, or spark.jars where executors run "
        "elsewhere; then start the worker again"
    )
