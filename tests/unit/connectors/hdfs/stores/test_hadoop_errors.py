"""Errors of Hadoop: their texts, and their meaning to the worker."""

from __future__ import annotations

import pytest

from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.stores.hadoop_errors import error_of
from headrace.plugins.errors import RetriableError

NO_CREDENTIALS = "GSS initiate failed: No valid credentials provided: "


@pytest.mark.parametrize(
    ("kind", "message", "error", "advice"),
    [
        ("SafeModeException", "Cannot create file/a. Name node is in safe mode.", RetriableError, "-safemode leave"),
        ("RetriableException", "SafeModeException: Name node is in safe mode", RetriableError, "-safemode leave"),
        ("StandbyException", "Operation category READ", RetriableError, "haadmin"),
        ("DSQuotaExceededException", "The DiskSpace quota of /a is exceeded", RetriableError, "-setSpaceQuota"),
        ("IOException", "File /a could only be written to 0 of the 1 minReplication nodes", RetriableError, "-report"),
        ("RetriableException", "Namenode is in startup mode", RetriableError, "starting"),
        ("SomethingNewException", "Never heard of", RetriableError, "SomethingNewException"),
        ("AccessControlException", "Permission denied: user=x, access=WRITE", StoreError, r"hadoop\.user"),
        ("AccessControlException", "SIMPLE authentication is not enabled.", StoreError, r"authentication\.kerberos"),
        ("KerberosAuthException", "Login failure: LoginException: Checksum failed", StoreError, "keytab.*clocks"),
        ("KerberosAuthException", "Login failure: LoginException: Connection refused", RetriableError, "KDC answers"),
        ("IOException", "GSS initiate failed: No valid credentials provided", RetriableError, "ticket.*KDC answers"),
        ("IOException", f"{NO_CREDENTIALS}Server not found in Kerberos database", StoreError, "domain_realm"),
        ("KerberosAuthException", f"{NO_CREDENTIALS}Clock skew too great", StoreError, "clocks"),
        ("IOException", "Failed to specify server's Kerberos principal name", StoreError, r"namenode\.principal"),
        ("InvalidPathException", "Invalid path name", StoreError, "':'"),
    ],
)
def test_an_error_says_what_where_and_what_to_do(kind: str, message: str, error: type[Exception], advice: str) -> None:
    found = error_of("write 'a' in hdfs://nn", kind, f"{message}\n\tat java.lang.Thread")
    assert type(found) is error
    with pytest.raises(error, match=rf"^Could not write 'a' in hdfs://nn: {message.rstrip('.')}\. .*{advice}"):
        raise found
    assert "Thread" not in str(found)
