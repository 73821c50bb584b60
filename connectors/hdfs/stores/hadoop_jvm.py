"""Hadoop's own client in the driver's JVM: file systems, with Kerberos on request.

Decided: the login of Kerberos is the one of the JVM's process, as Hadoop wants it, so all connectors of a worker with
Kerberos share one principal; a second one is refused. Loses: two identities in one worker.
"""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any, Final

from pyspark import TaskContext

from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.stores.hadoop_conf import FILES
from headrace.connectors.hdfs.stores.settings import HadoopSettings
from headrace.plugins.errors import RetriableError
from headrace.plugins.interop.catalyst.spark_internals import (
    complete_context,
    hadoop_configuration,
    jvm_of,
    thrown_in_java,
)

_BOUNDS: Final = {
    "ipc.client.connect.max.retries": "2",
    "ipc.client.connect.max.retries.on.timeouts": "2",
    "ipc.client.connect.timeout": "10000",
    "dfs.client.failover.max.attempts": "4",
    "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "20",
    "dfs.client.block.write.locateFollowingBlock.retries": "9",
}
"""Short bounds: the worker tries again itself, and must be able to stop meanwhile; Hadoop's own retries take minutes.

The last two: a file whose last block the name node has not heard of yet is closed 20 ms later, not 400.
"""

_login = threading.Lock()
_renewed: dict[str, float] = {}
"""The time of the JVM's last renewed login, by principal."""


def context_of_worker() -> Any:
    """Return the Spark context of this process. Errors: StoreError in an executor; RetriableError before Spark runs."""
    if (context := complete_context()) is not None:
        return context
    if TaskContext.get() is not None:
        raise StoreError(
            "Hadoop's client is in the worker's JVM, so this store cannot be used in a Spark executor: reach it by "
            "WebHDFS (a webhdfs:// store.url, or hadoop.conf.dir with dfs.namenode.http-address)."
        )
    raise RetriableError("Hadoop's client is in Spark's JVM, which does not run yet; it is tried again.")


def configuration(context: Any, settings: HadoopSettings) -> Any:
    """Return Hadoop's Configuration: Spark's, the files of `hadoop.conf.dir`, and Kerberos."""
    hadoop = jvm_of(context).org.apache.hadoop
    found = hadoop.conf.Configuration(hadoop_configuration(context))
    for path in (Path(settings.conf_dir, name) for name in FILES):
        if settings.conf_dir and path.exists():
            found.addResource(hadoop.fs.Path("file", None, str(path.absolute())))
    for name, value in _BOUNDS.items():
        found.set(name, value)
    if settings.kerberos:
        found.set("hadoop.security.authentication", "kerberos")
        if settings.name_node_principal:
            found.set("dfs.namenode.kerberos.principal", settings.name_node_principal)
    return found


def file_system(context: Any, settings: HadoopSettings, url: str) -> Any:
    """Return a FileSystem of the caller's own. Errors: Java's, StoreError."""
    conf = configuration(context, settings)
    root = jvm_of(context).java.net.URI.create(url)
    if settings.kerberos:
        log_in(jvm_of(context), settings, conf)
    elif settings.user:
        return jvm_of(context).org.apache.hadoop.fs.FileSystem.newInstance(root, conf, settings.user)
    return jvm_of(context).org.apache.hadoop.fs.FileSystem.newInstance(root, conf)


def log_in(jvm: Any, settings: HadoopSettings, conf: Any) -> None:
    """Log the JVM in from the keytab, once. Errors: Java's, StoreError."""
    security = jvm.org.apache.hadoop.security
    # Not by Hadoop's SecurityUtil: py4j cannot look into it without classes that pyspark's jars do not have.
    principal = settings.principal.replace("/_HOST", f"/{socket.getfqdn().lower()}")
    with _login:
        security.UserGroupInformation.setConfiguration(conf)
        if security.UserGroupInformation.isLoginKeytabBased():
            known = security.UserGroupInformation.getLoginUser().getUserName()
            if known.partition("@")[0] != principal.partition("@")[0]:
                raise StoreError(
                    f"This worker is logged in to Kerberos as {known}, and cannot be {principal}, too: run the "
                    "connector on another worker, or with the same connect.hdfs.principal."
                )
        else:
            security.UserGroupInformation.loginUserFromKeytab(principal, settings.keytab)
        _renewed[settings.principal] = time.monotonic()


def renew_login(jvm: Any, settings: HadoopSettings) -> None:
    """Renew the login if it is due; Hadoop asks the KDC only if the ticket is old."""
    with _login:
        due = _renewed.get(settings.principal, 0.0) + settings.renew_ms / 1000
        if settings.kerberos and time.monotonic() >= due:
            jvm.org.apache.hadoop.security.UserGroupInformation.getLoginUser().checkTGTAndReloginFromKeytab()
            _renewed[settings.principal] = time.monotonic()


def java_error(error: Exception) -> tuple[str, str]:
    """Return the simple name of a Java exception's class, and its message."""
    cause = thrown_in_java(error)
    if cause is None:
        return type(error).__name__, str(error)
    name: str = cause.getClass().getName()
    if name == "org.apache.hadoop.ipc.RemoteException":
        name = cause.getClassName()
    return name.rpartition(".")[2], str(cause.getMessage() or "")
