"""The parameters of pgjdbc that take effect here.

Others, such as `stringtype` and `reWriteBatchedInserts`, change how an application uses the driver: a sink binds by the
types of columns and writes with COPY, whatever they say.
"""

from __future__ import annotations

from typing import Final

LIBPQ: Final = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "channelBinding": "channel_binding",
    "gssEncMode": "gssencmode",
    "kerberosServerName": "krbsrvname",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
}
"""Parameters with their names in libpq."""

OBEYED: Final = frozenset(
    {"ssl", "targetservertype", "options", "currentschema", "preparethreshold", *map(str.lower, LIBPQ)}
)
"""Parameters that are passed to psycopg and libpq, in lower case."""

OBEYED_BY_JVM: Final = frozenset(
    {
        "adaptivefetch",
        "adaptivefetchmaximum",
        "adaptivefetchminimum",
        "assumeminserverversion",
        "binarytransfer",
        "binarytransferdisable",
        "binarytransferenable",
        "cancelsignaltimeout",
        "groupstartupparameters",
        "gsslib",
        "gssresponsetimeout",
        "gssusedefaultcreds",
        "hostrecheckseconds",
        "loadbalancehosts",
        "localsocketaddress",
        "logintimeout",
        "logservererrordetail",
        "maxresultbuffer",
        "maxsendbuffersize",
        "pemkeyalgorithm",
        "preferquerymode",
        "preparedstatementcachequeries",
        "preparedstatementcachesizemib",
        "protocolversion",
        "querytimeout",
        "receivebuffersize",
        "requireauth",
        "scrammaxiterations",
        "sendbuffersize",
        "sockettimeout",
        "sslnegotiation",
        "sslresponsetimeout",
        "sspiserviceclass",
        "tcpkeepalive",
        "tcpnodelay",
        "usespnego",
    }
)
"""Parameters that take effect when pgjdbc reads, in lower case."""
