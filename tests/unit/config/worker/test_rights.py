"""The rights file: what its rules give to whom, and what is said of one that is broken."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headrace.config.problems import ConfigError
from headrace.config.worker.config import WorkerConfig
from headrace.config.worker.rights import ANONYMOUS, EVERYTHING, Grants, NamePattern, Right, Rights
from tests.unit.rest.conftest import SETTINGS

FILE = """
[groups]
operators = ["anna", "CN=ben,O=Example"]

[[rules]]
who = ["group:operators"]
connectors = ["orders-*", "invoices"]
rights = ["operate"]

[[rules]]
who = ["user:anna"]
connectors = ["orders-in"]
rights = ["offsets"]

[[rules]]
who = ["user:root"]
rights = ["admin"]

[[rules]]
who = ["user:prometheus"]
connectors = ["*"]
rights = ["view"]
"""


def rights(text: str = FILE) -> Rights:
    return Rights.parse(text, Path("/etc/rights.toml"))


def given(grants: Grants, connector: str) -> set[str]:
    return {str(right) for right in Right if grants.may(right, connector)}


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as raised:
        rights(text)
    return str(raised.value)


def test_rules_add_up_and_give_nothing_else() -> None:
    anna = rights().of("anna", ())
    assert given(anna, "orders-in") == {"view", "operate", "offsets"}
    assert given(anna, "orders-out") == given(anna, "invoices") == {"view", "operate"}
    assert given(anna, "Orders-in") == given(anna, "invoices-2") == given(anna, "") == set()
    assert given(rights().of("CN=ben,O=Example", ()), "invoices") == {"view", "operate"}
    assert given(rights().of("carol", ["operators"]), "invoices") == {"view", "operate"}
    assert given(rights().of("operators", ["anna"]), "orders-in") == set()
    assert given(rights().of(ANONYMOUS, ()), "orders-in") == set()


def test_rights_include_those_that_they_cannot_do_without() -> None:
    def of(right: str) -> set[str]:
        text = f'[[rules]]\nwho = ["*"]\nconnectors = ["*"]\nrights = ["{right}"]'
        return given(rights(text).of("x", ()), "c")

    assert of("view") == {"view"}
    assert of("view_config") == {"view", "view_config"}
    assert of("edit") == {"view", "view_config", "edit"}
    assert of("operate") == {"view", "operate"}
    assert of("offsets") == {"view", "offsets"}
    assert of("admin") == {"admin"}


def test_all_and_any() -> None:
    root, scraper, anna = (rights().of(name, ()) for name in ("root", "prometheus", "anna"))
    assert root.may_any(Right.ADMIN)
    assert not root.may_any(Right.VIEW)
    assert scraper.may_all(Right.VIEW)
    assert not anna.may_all(Right.VIEW)
    assert anna.may_any(Right.OPERATE)
    assert not anna.may_any(Right.EDIT)
    assert EVERYTHING.may_all(Right.ADMIN)


@pytest.mark.parametrize("who", ["*", ANONYMOUS, f"user:{ANONYMOUS}"])
def test_who_has_no_login_may_have_rights(who: str) -> None:
    text = f'[[rules]]\nwho = ["{who}"]\nconnectors = ["c"]\nrights = ["view"]'
    assert given(rights(text).of(ANONYMOUS, ()), "c") == {"view"}
    assert given(rights(text).of("anna", ()), "c") == ({"view"} if who == "*" else set())


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("orders-*", "orders-", True),
        ("orders-*", "my-orders-1", False),
        ("a?c", "a/c", True),
        ("a[bc]d", "acd", True),
        ("a.c", "abc", False),
        ("a*", "a\nb", True),
        ("a", "a\n", False),
        ("*", "", True),
    ],
)
def test_patterns_are_a_shell_s(pattern: str, name: str, matches: bool) -> None:
    assert NamePattern(pattern).matches(name) is matches


def test_no_name_makes_a_pattern_slow() -> None:
    pattern = NamePattern("*a" * 10 + "b")
    began = time.process_time()
    assert not pattern.matches("a" * 60_000)
    assert time.process_time() - began < 2


def test_a_broken_file_is_told_with_lines_and_remedies() -> None:
    said = refusal('x = 1\n\n[[rules]]\nwho = ["bob"]\nconnectors = ["a"]\nrights = ["veiw", "admin"]\nconnector = []')
    assert "Line 1: 'x' means nothing here. There are groups, rules." in said
    assert "Line 4: who: 'bob' names nobody." in said
    assert "Line 6: rights: 'veiw' is no right." in said
    assert "Did you mean view?" in said
    assert "Line 6: rights: admin is of the whole worker" in said
    assert "Line 7: 'connector' means nothing here. There are who, connectors, rights. Did you mean connectors?" in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no rules, so that nobody could do anything"),
        ("[[rules]\n", "no valid TOML: Expected ']]' at the end of an array declaration (at line 1, column 8)"),
        ("rules = [1]", "rules is no list of tables"),
        ('[[rules]]\nwho = ["*"]\nrights = ["view"]', "Line 1: connectors is missing. Write connectors ="),
        ('[[rules]]\nwho = "*"\nrights = ["admin"]', "Line 2: who is no list of texts"),
        ('[[rules]]\nwho = []\nrights = ["admin"]', "Line 2: who is no list of texts"),
        ('[[rules]]\nwho = ["group:"]\nrights = ["admin"]', "Line 2: who: 'group:' names nobody"),
        ('groups = 1\n[[rules]]\nwho = ["*"]\nrights = ["admin"]', "groups is no table"),
        ('[groups]\na = "b"\n[[rules]]\nwho = ["*"]\nrights = ["admin"]', "Line 2: a is no list of texts"),
        ('[[rules]]\nwho = ["*"]\nrights = ["view"]\nconnectors = ["' + "*a" * 11 + '"]', "Line 4: connectors: the"),
        ('rules = [{who = ["x"], rights = ["admin"]}]', "Rule 1: who: 'x' names nobody"),
        ("a = " + "[" * 100_000, "no valid TOML"),
    ],
)
def test_what_is_broken(text: str, said: str) -> None:
    assert said in refusal(text)


def test_a_worker_does_not_start_with_a_broken_file(tmp_path: Path) -> None:
    file = tmp_path / "rights.toml"
    file.write_text('[[rules]]\nwho = ["*"]\nrights = ["root"]')
    with pytest.raises(ConfigError, match=r"Line 3: rights: 'root' is no right"):
        WorkerConfig.standalone({**SETTINGS, "rest.rights.file": str(file)})
    with pytest.raises(ConfigError, match=r"rest.rights.file .*cannot be read: .*No such file"):
        WorkerConfig.standalone({**SETTINGS, "rest.rights.file": str(tmp_path / "none")})
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"cannot be read"):
        WorkerConfig.standalone({**SETTINGS, "rest.rights.file": str(file)})
    file.write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(ConfigError, match=r"more than 1048576 bytes"):
        WorkerConfig.standalone({**SETTINGS, "rest.rights.file": str(file)})
    file.write_text(FILE)
    WorkerConfig.standalone({**SETTINGS, "rest.rights.file": str(file)})


def test_an_audit_log_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    to = {**SETTINGS, "rest.audit.log.file": str(tmp_path / "audit.log")}
    with pytest.raises(ConfigError, match=r"Set rest.audit.log to text or json"):
        WorkerConfig.standalone(to)
    with pytest.raises(ConfigError, match=r"cannot be written: No such file"):
        WorkerConfig.standalone({**to, "rest.audit.log": "json", "rest.audit.log.file": str(tmp_path / "no" / "a")})
    WorkerConfig.standalone({**to, "rest.audit.log": "json"})
