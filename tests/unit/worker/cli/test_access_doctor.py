"""The doctor's words on a worker's rights and its audit log."""

from __future__ import annotations

from pathlib import Path

from headrace.worker.cli.access_doctor import examine
from headrace.worker.cli.doctor import ReportLine, Verdict

RULES = '[[rules]]\nwho = ["user:root"]\nconnectors = ["*"]\nrights = ["edit", "admin"]\n'


def found(folder: Path, rules: str | None = None, properties: str = "", mode: int = 0o600) -> list[ReportLine]:
    file, worker = folder / "rights.toml", folder / "worker.properties"
    named = ""
    if rules is not None:
        file.write_text(rules)
        file.chmod(mode)
        named = f"rest.rights.file={file}\n"
    worker.write_text(named + properties)
    return list(examine(worker))


def test_a_worker_without_both_is_warned_of(tmp_path: Path) -> None:
    rights, audit = found(tmp_path)
    assert (rights.state, audit.state) == (Verdict.WARN, Verdict.WARN)
    assert "may do everything" in rights.found
    assert "rest.rights.file" in rights.advice
    assert "rest.audit.log=text or json" in audit.advice


def test_a_worker_with_both_is_well(tmp_path: Path) -> None:
    rights, audit = found(tmp_path, RULES, "rest.audit.log=json\n")
    assert (rights.state, audit.state) == (Verdict.OK, Verdict.OK)
    assert rights.found.endswith("rights.toml has 1 rules")


def test_a_broken_file_is_told_line_by_line(tmp_path: Path) -> None:
    checks = found(tmp_path, RULES.replace("edit", "eidt").replace("user:", ""))
    assert [check.state for check in checks[:2]] == [Verdict.FAIL, Verdict.FAIL]
    assert checks[0].found == "Line 2: who: 'root' names nobody."
    assert checks[1].found == "Line 4: rights: 'eidt' is no right."
    assert "Did you mean edit?" in checks[1].advice


def test_a_file_that_anybody_may_write_to_protects_nothing(tmp_path: Path) -> None:
    rights = found(tmp_path, RULES, mode=0o646)[0]
    assert rights.state is Verdict.FAIL
    assert rights.advice.startswith("run chmod o-w ")


def test_rules_without_an_administrator_are_warned_of(tmp_path: Path) -> None:
    assert found(tmp_path, RULES.replace(', "admin"', ""))[0].state is Verdict.WARN


def test_properties_that_cannot_be_read_fail(tmp_path: Path) -> None:
    assert [check.state for check in examine(tmp_path / "none.properties")] == [Verdict.FAIL]
