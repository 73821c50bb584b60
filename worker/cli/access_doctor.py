"""`headrace doctor --worker FILE`: the gaps in a worker's rights and its audit log."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from headrace.config.problems import ConfigError
from headrace.config.properties import read_properties
from headrace.config.worker.audit import AUDIT
from headrace.config.worker.rights import RIGHTS_FILE, Right, Rights
from headrace.worker.cli.doctor import ReportLine, Verdict


def examine(worker_file: Path) -> Iterator[ReportLine]:
    """Check the rights and audit settings in these properties."""
    try:
        given = read_properties(worker_file)
    except ConfigError as error:
        yield ReportLine("worker", Verdict.FAIL, str(error))
        return
    yield from _rights(given)
    if given.get(AUDIT, "none") == "none":
        yield ReportLine("audit log", Verdict.WARN, "off", f"{AUDIT}=text or json has a line of each change over REST")
    else:
        yield ReportLine("audit log", Verdict.OK, given[AUDIT])


def _rights(given: Mapping[str, str]) -> Iterator[ReportLine]:
    name = "rights"
    if RIGHTS_FILE not in given:
        advice = f"name a file of rules in {RIGHTS_FILE}: docs/security-rest.md#rights has one to begin with"
        yield ReportLine(name, Verdict.WARN, "who may reach the REST API may do everything", advice)
        return
    path = Path(given[RIGHTS_FILE])
    try:
        rights = Rights.read(path)
    except ConfigError as error:
        yield from (ReportLine(name, Verdict.FAIL, one.message, one.remedy) for one in error.problems)
        return
    if path.stat().st_mode & stat.S_IWOTH:
        yield ReportLine(name, Verdict.FAIL, f"everybody on this machine may write to {path}", f"run chmod o-w {path}")
    elif not any(Right.ADMIN in rule.rights for rule in rights.rules):
        advice = "give the right admin to somebody, if levels and drains are to be set over REST"
        yield ReportLine(name, Verdict.WARN, f"{path}: nobody may set log levels, or drain the worker", advice)
    else:
        yield ReportLine(name, Verdict.OK, f"{path} has {len(rights.rules)} rules")
