"""The parameters of MariaDB's and MySQL's JDBC drivers that take effect here, and the handling of zero dates.

Other parameters change how an application uses the driver. Values are fetched as plain numbers and texts, so parameters
about types and time zones change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

_ZONES: Final = (
    "timezone",
    "servertimezone",
    "connectiontimezone",
    "forceconnectiontimezonetosession",
    "preserveinstants",
)
_ZERO_DATES: Final = "zerodatetimebehavior"

OBEYED: Final = frozenset({"connecttimeout", "sslmode", "usessl", "trustservercertificate", "serversslcert"})
"""Parameters that are passed to PyMySQL."""

OBEYED_BY_JVM: Final = frozenset(
    {
        _ZERO_DATES,
        "allowpublickeyretrieval",
        "clientcertificatekeystorepassword",
        "clientcertificatekeystoretype",
        "clientcertificatekeystoreurl",
        "connectionattributes",
        "connectioncollation",
        "disconnectonexpiredpasswords",
        "enabledsslciphersuites",
        "enabledsslprotocolsuites",
        "fallbacktosystemkeystore",
        "fallbacktosystemtruststore",
        "galeraallowedstate",
        "keypassword",
        "keystore",
        "keystorepassword",
        "keystoretype",
        "localsocketaddress",
        "maxallowedpacket",
        "maxquerysizetolog",
        "restrictedauth",
        "retriesalldown",
        "serverrsapublickeyfile",
        "serviceprincipalname",
        "sessionvariables",
        "sockettimeout",
        "tcpabortiveclose",
        "tcpkeepalive",
        "tcpkeepcount",
        "tcpkeepidle",
        "tcpkeepinterval",
        "trustcertificatekeystorepassword",
        "trustcertificatekeystoretype",
        "trustcertificatekeystoreurl",
        "truststore",
        "truststorepassword",
        "truststoretype",
        "usecompression",
        "usereadaheadinput",
    }
)
"""Parameters that take effect when MariaDB's driver reads, by its own names and by MySQL's."""


class ZeroDates(StrEnum):
    """The value for a date of zeros, by MySQL's `zeroDateTimeBehavior`."""

    EXCEPTION = "exception"
    """The row is bad."""
    NULL = "converttonull"
    ROUND = "round"
    """The first day of the year 1."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ZeroDates:
        """Reads the drivers' properties. Errors: ValueError."""
        given = next((value for key, value in properties.items() if key.lower() == _ZERO_DATES), cls.EXCEPTION)
        try:
            return cls(given.lower().replace("_", ""))
        except ValueError:
            text = f"zeroDateTimeBehavior={given} is none: it is exception, convertToNull or round"
            raise ValueError(text) from None


def sets_zone(name: str, value: str) -> bool:
    """True if a parameter moves the session from UTC: all bounds are in UTC, so rows would be lost."""
    return name.lower() in _ZONES or (name.lower() == "sessionvariables" and "time_zone" in value.lower())
