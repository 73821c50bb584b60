"""`ssl.principal.mapping.rules`: what Kafka's rules make of distinguished names."""

from __future__ import annotations

import time

import pytest

from headrace.config.problems import ConfigError
from headrace.rest.security.certificates import PrincipalMapping
from headrace.rest.security.refusals import WrongLogin

KAFKAS = ", ".join(
    [
        r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("rules", "name", "made"),
    [
        (KAFKAS, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        (KAFKAS, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (KAFKAS, "cn=duke,ou=sme", "DUKE"),
        (KAFKAS, "OU=sme", "OU=sme"),
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        (r"RULE:^CN=(.*)\/(.*)$/$2\/$1/", "CN=a/b", "b/a"),
        ("RULE:^CN=([^,]+)$/$1@$4/", "CN=a", "a@$4"),
        ("RULE:^CN=([^,]+)$/$12/", "CN=a", "a2"),
        ("RULE:^CN=(?<who>[^,]+)$/${who}!/L", "CN=ANN", "ann!"),
        ("RULE:^CN=([^,]+)$/x/,RULE:^.*$/y/", "CN=a", "x"),
        ("RULE:^CN=(a{1,3}),O=b$/$1/", "CN=aa,O=b", "aa"),
        (" RULE:^CN=([^,]+)$/$1/ , ", "CN=a", "a"),
    ],
)
def test_the_first_rule_that_matches_counts(rules: str, name: str, made: str) -> None:
    assert PrincipalMapping(rules).name(name) == made


@pytest.mark.parametrize(
    "rules",
    ["", ",", "RULE:^CN", "RULE:a/b", "DEFAULT DEFAULT", "RULE:a/b/X", "default", "RULE:(a/b/", "RULE:a/${who}/"],
)
def test_what_is_no_rule_refuses_the_start(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)


def test_a_name_without_a_rule_is_no_login() -> None:
    mapping = PrincipalMapping("RULE:^CN=(.*),O=ours$/$1/")
    assert mapping.name("CN=ann,O=ours") == "ann"
    for name in ("CN=ann,O=theirs", "CN=,O=ours"):
        with pytest.raises(WrongLogin, match="no rule of"):
            mapping.name(name)


def test_a_slow_expression_ends_in_time() -> None:
    mapping = PrincipalMapping("RULE:^(a+)+b$/$1/")
    began = time.monotonic()
    with pytest.raises(WrongLogin):
        mapping.name("a" * 60)
    with pytest.raises(WrongLogin):
        mapping.name("a" * 60)
    assert time.monotonic() - began < 60
