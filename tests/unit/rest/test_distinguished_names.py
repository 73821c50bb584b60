"""Subjects of certificates are written as Java's X500Principal.getName() writes them; the expected texts are Java's."""

from __future__ import annotations

import pytest
from cryptography.x509 import Name, NameAttribute, RelativeDistinguishedName
from cryptography.x509.oid import NameOID, ObjectIdentifier

from headrace.rest.security.distinguished_names import rfc2253


def name(*parts: tuple[ObjectIdentifier, str]) -> Name:
    return Name([NameAttribute(oid, value) for oid, value in parts])


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (name((NameOID.COUNTRY_NAME, "DE"), (NameOID.COMMON_NAME, "worker 1")), "CN=worker 1,C=DE"),
        (
            name((NameOID.ORGANIZATION_NAME, "Größe, Söhne + Co"), (NameOID.COMMON_NAME, 'a=b#c;<d>"e\\f')),
            r"CN=a\=b\#c\;\<d\>\"e\\f,O=Größe\, Söhne \+ Co",
        ),
        (
            name((NameOID.COMMON_NAME, " #lead and trail "), (NameOID.EMAIL_ADDRESS, "a@b.example")),
            r"1.2.840.113549.1.9.1=#160b6140622e6578616d706c65,CN=\ \#lead and trail\ ",
        ),
        (name((NameOID.SERIAL_NUMBER, "12"), (NameOID.TITLE, "T")), "2.5.4.12=#0c0154,2.5.4.5=#13023132"),
    ],
)
def test_a_name_is_written_as_java_does(subject: Name, text: str) -> None:
    assert rfc2253(subject) == text


def test_names_of_several_parts_keep_their_order() -> None:
    several = [NameAttribute(NameOID.COMMON_NAME, "x"), NameAttribute(NameOID.USER_ID, "u1")]
    domain = [NameAttribute(NameOID.DOMAIN_COMPONENT, "example")]
    subject = Name([RelativeDistinguishedName(domain), RelativeDistinguishedName(several)])
    assert rfc2253(subject) == "CN=x+UID=u1,DC=example"
