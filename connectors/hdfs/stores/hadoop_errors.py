"""The errors of Hadoop by the names of their Java classes, as WebHDFS and its file systems in the JVM give them."""

from __future__ import annotations

from typing import Final

from headrace.connectors.hdfs.errors import StoreError
from headrace.plugins.errors import RetriableError

MISSING: Final = "FileNotFoundException"
TAKEN: Final = "FileAlreadyExistsException"

_AGAIN: Final = "it is tried again."
_RESTART: Final = "then restart the task."
_CREDENTIALS: Final = f"Set hdfs.authentication.kerberos, connect.hdfs.principal and connect.hdfs.keytab, {_RESTART}"
_REFUSED: Final = {
    "AccessControlException": "Give the user rights there (hdfs dfs -chown, -chmod or -setfacl), or set hadoop.user "
    f"or connect.hdfs.principal to one that has them; {_RESTART}",
    "SecurityException": f"Set hadoop.user; or, where the cluster wants Kerberos: {_CREDENTIALS}",
    "KerberosAuthException": "See that connect.hdfs.keytab holds a current key of connect.hdfs.principal "
    f"(klist -kt, kinit -kt), and that the clocks of this host and of the KDC agree; {_RESTART}",
    "AuthenticationException": f"The cluster wants Kerberos. {_CREDENTIALS}",
    "no server principal": "Set hdfs.namenode.principal to the name nodes' principal (dfs.namenode.kerberos.principal "
    f"in their hdfs-site.xml), {_RESTART}",
    "unknown server": "The KDC does not know the server by the name that its address has: see that names and addresses "
    "of the name nodes resolve to each other as in their principals, and that domain_realm in krb5.conf is right; "
    f"{_RESTART}",
    "clock skew": f"Set the clocks of this host, the name nodes and the KDC right, as by NTP, {_RESTART}",
    "ParentNotDirectoryException": "A file has the name of one of its folders: remove that file.",
    "InvalidPathException": "HDFS takes no such name: it must have no ':' and no '//'. Change the partitioner.",
    "UnknownHostException": "Correct the host in store.url; a name service needs hadoop.conf.dir.",
    "UnsupportedFileSystemException": "Correct the scheme of store.url.",
    "IllegalArgumentException": "Correct store.url and hadoop.conf.dir.",
}
_KDC: Final = "See that the KDC answers, and that the realm in krb5.conf is right"
_AWAY: Final = "No name node answers: see that it runs, and that the address is right"
_RETRIABLE: Final = {
    "SafeModeException": "The name node is in safe mode and takes no changes: see `hdfs dfsadmin -safemode get`, and "
    "leave it by `-safemode leave` once its blocks are reported and its disks have room",
    "NSQuotaExceededException": "Raise the quota of names (hdfs dfsadmin -setQuota), or delete files",
    "DSQuotaExceededException": "Raise the quota of space (hdfs dfsadmin -setSpaceQuota), or delete files",
    "StandbyException": "No name node of the name service is active: see `hdfs haadmin -getAllServiceState`",
    "RetriableException": "The name node is starting",
    "no KDC": _KDC,
    "no ticket": f"There is no valid Kerberos ticket. {_KDC}",
    "ConnectException": _AWAY,
    "ConnectTimeoutException": _AWAY,
    "EOFException": _AWAY,
    "NoRouteToHostException": _AWAY,
    "SocketException": _AWAY,
    "SocketTimeoutException": _AWAY,
}
_SIGNS: Final = {
    "safe mode": "SafeModeException",
    "startup mode": "RetriableException",
    "could only be written to": "no room",
    "could only be replicated to": "no room",
    "failed to find datanode": "no room",
    "not supported in state standby": "StandbyException",
    "simple authentication is not enabled": "AuthenticationException",
    "kerberos principal name": "no server principal",
    "invalid kerberos principal": "no server principal",
    "server not found in kerberos database": "unknown server",
    "clock skew too great": "clock skew",
    "no valid credentials": "no ticket",  # also said before the two above
}
_KDC_AWAY: Final = ("refused", "timed out", "cannot contact", "cannot locate kdc", "no route to host", "unknownhost")
"""Parts of Java's message on a failed login, if the KDC is the cause."""
_NO_ROOM: Final = "No data node takes the blocks: see `hdfs dfsadmin -report` for nodes that are away or full"


def error_of(doing: str, kind: str, message: str) -> Exception:
    """Return the worker's error for an error of this Java class.

    `doing`: the failed request, in words; `kind`: the class's simple name.
    """
    lines = message.strip().splitlines()
    text = f"Could not {doing}: {lines[0].rstrip('.') if lines else kind}."
    lowered = message.lower()
    kind = next((told for sign, told in _SIGNS.items() if sign in lowered), kind)
    if kind == "KerberosAuthException" and any(sign in lowered for sign in _KDC_AWAY):
        kind = "no KDC"
    if kind in _REFUSED:
        return StoreError(f"{text} {_REFUSED[kind]}")
    advice = _NO_ROOM if kind == "no room" else _RETRIABLE.get(kind, f"Hadoop says {kind}: see the name node's log")
    return RetriableError(f"{text} {advice}; {_AGAIN}")
