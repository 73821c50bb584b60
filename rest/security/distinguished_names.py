"""Certificates' names as text."""

from __future__ import annotations

from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from headrace.config.key_stores import der_element

_KEYWORDS: Final = {
    NameOID.COMMON_NAME: "CN",
    NameOID.COUNTRY_NAME: "C",
    NameOID.LOCALITY_NAME: "L",
    NameOID.STATE_OR_PROVINCE_NAME: "ST",
    NameOID.STREET_ADDRESS: "STREET",
    NameOID.ORGANIZATION_NAME: "O",
    NameOID.ORGANIZATIONAL_UNIT_NAME: "OU",
    NameOID.DOMAIN_COMPONENT: "DC",
    NameOID.USER_ID: "UID",
}
_BLANK: Final = "\\ "
_ESCAPED: Final = ',=+<>#;"\\'


def rfc2253(name: x509.Name) -> str:
    """The name as Java's `X500Principal.getName()` writes it; mapping rules and ACLs expect this form."""
    return ",".join("+".join(_written(one) for one in part) for part in reversed(name.rdns))


def _written(attribute: x509.NameAttribute[str | bytes]) -> str:
    keyword = _KEYWORDS.get(attribute.oid)
    if keyword is None or isinstance(attribute.value, bytes):
        return f"{attribute.oid.dotted_string}=#{_der_value(attribute).hex()}"
    text = "".join(f"\\{char}" if char in _ESCAPED else char for char in attribute.value).replace("\0", "\\00")
    inner = text.strip(" ")
    before, after = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    return f"{keyword}={before * _BLANK}{inner}{(after if inner else 0) * _BLANK}"


def _der_value(attribute: x509.NameAttribute[str | bytes]) -> bytes:
    """The encoded value in SEQUENCE {SET {SEQUENCE {OID, value}}}."""
    encoded = x509.Name([attribute]).public_bytes()
    names, _ = der_element(encoded, 0)
    attributes, _ = der_element(encoded, names)
    pair, _ = der_element(encoded, attributes)
    _, oid_end = der_element(encoded, pair)
    return encoded[oid_end:]
