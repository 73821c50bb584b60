"""What a window must wait for, so that no row of it is committed later: PostgreSQL's open transactions.

An id is taken, or `now()` is read, before the row's transaction commits; others that took theirs later may have
committed already. A window that ends with one of those is complete once all transactions have ended that may yet commit
a row below its end. So: first look how far the table goes, then which transactions are open, wait until these have
ended, and read up to that end. Transactions that begin meanwhile take ids and times beyond it; nobody waits for them.

| `snapshot.bound` | waits for |
|---|---|
| writers | transactions that have written to the table: what a sequence needs |
| transactions | those that may yet write, too: what `now()` needs, which is the time when a transaction began |
| none | nothing |
| auto | writers where only ids count, else transactions |

Decided: who has written nothing for 10 s since it was first seen is taken for a reader, because else every report,
dump or idle connection would stop the stream; loses: rows with the time of a transaction that reads for longer before
it first writes. `timestamp.overlap.ms` finds those.

A standby does not know of the primary's transactions, nor other databases of theirs: there nothing is waited for, and a
warning says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection

from headrace.connectors.jdbc.asking import Found
from headrace.connectors.jdbc.postgresql_source import (
    ANY_TABLE,
    PostgresqlSource,
    is_standby,
    open_transactions,
    open_writers,
)
from headrace.connectors.jdbc.source_sql import SourceSql
from headrace.connectors.jdbc.tables import TableType
from headrace.connectors.jdbc.windows import Mode

log = logging.getLogger(__name__)

READS_ONLY_S: Final = 10.0
_TELL_S: Final = 30.0
_TIMED_REMEDIES: Final = ("timestamp.delay.interval.ms", "timestamp.overlap.ms")
_COUNTED_REMEDIES: Final = ("incrementing.overlap",)


class Bound(StrEnum):
    """What is waited for, by the setting `snapshot.bound`."""

    AUTO = "auto"
    WRITERS = "writers"
    TRANSACTIONS = "transactions"
    NONE = "none"

    def of(self, mode: Mode) -> Bound:
        """What it means in a mode."""
        if mode is Mode.BULK:
            return Bound.NONE
        if self is not Bound.AUTO:
            return self
        return Bound.TRANSACTIONS if mode.times else Bound.WRITERS


class LateCommits:
    """Lets windows through once nothing can come late into them."""

    def __init__(self, bound: Bound) -> None:
        self._bound = bound
        self._seen: dict[str, float] = {}
        self._told = False
        self.waiting: dict[str, Waiting] = {}
        """The windows that wait, by the names of their tables."""

    @classmethod
    def of(cls, values: Mapping[str, Any], mode: Mode, sql: SourceSql) -> LateCommits:
        """By parsed settings; other databases than PostgreSQL do not tell, and a warning says so where it matters."""
        bound = Bound(values["snapshot.bound"]).of(mode)
        if isinstance(sql, PostgresqlSource):
            return cls(bound)
        remedies = _TIMED_REMEDIES if mode.times else _COUNTED_REMEDIES
        if not (sql.one_writer or bound is Bound.NONE or any(values[name] for name in remedies)):
            log.warning(
                "this database does not tell of open transactions: a row that is committed after others with greater "
                "values were read is lost, as by Confluent's connector; set %s to more than transactions take",
                " or ".join(remedies),
            )
        return cls(Bound.NONE)

    def settled(self, connection: Connection, found: Iterable[Found]) -> list[Found]:
        """Of the windows found now, and of those that wait, the ones that are complete; the others wait."""
        new = list(found)
        if self._bound is Bound.NONE:
            return new
        ready = [one for one in new if one.is_late]  # that they are there is all that is asked of them
        fresh = {one.table.name: one for one in new if not one.is_late}
        if not fresh and not self.waiting:
            return ready
        # Now that their ends are known: whoever is open now may commit below them, who begins later does not.
        still = self._open(connection, [*fresh.values(), *(one.found for one in self.waiting.values())])
        for name, waiting in list(self.waiting.items()):
            if waiting.ends(still[name]):
                del self.waiting[name]
                ready.append(waiting.found)
        for name, one in fresh.items():
            if still[name]:
                self.waiting[name] = Waiting(one, still[name])
            else:
                ready.append(one)
        return ready

    def _open(self, connection: Connection, windows: Iterable[Found]) -> dict[str, frozenset[str]]:
        """For each window's table the transactions that it would have to wait for if it were seen now."""
        keys = {one.table.name: _lock_name(one) for one in windows}
        if is_standby(connection):
            self._tell_of_standby()
            return dict.fromkeys(keys, frozenset())  # whatever is open here only reads
        writers = open_writers(connection, set(keys.values()))
        others: frozenset[str] = frozenset()
        if self._bound is Bound.TRANSACTIONS:
            others = self._may_write(open_transactions(connection))
        return {name: writers[key] | others for name, key in keys.items()}

    def _tell_of_standby(self) -> None:
        if not self._told:
            self._told = True
            log.warning(
                "this PostgreSQL server is a standby, which does not tell of open transactions: rows that are "
                "committed late can be lost; read from the primary, or set timestamp.delay.interval.ms, "
                "timestamp.overlap.ms or incrementing.overlap"
            )

    def _may_write(self, transactions: Mapping[str, bool]) -> frozenset[str]:
        now = time.monotonic()
        self._seen = {one: self._seen.get(one, now) for one in transactions}
        return frozenset(one for one, wrote in transactions.items() if wrote or now - self._seen[one] < READS_ONLY_S)


@dataclass
class Waiting:
    """A window that waits for transactions which were open when it was seen."""

    found: Found
    transactions: frozenset[str]
    since: float = field(default_factory=time.monotonic)
    told: bool = False

    def ends(self, still_open: frozenset[str]) -> bool:
        """Whether all of them have ended."""
        self.transactions &= still_open
        if self.transactions and not self.told and time.monotonic() - self.since > _TELL_S:
            self.told = True
            log.info(
                "new rows of %s wait for %d open transaction(s), which may commit rows that come before them: %s "
                "(virtualtransaction in pg_locks). With snapshot.bound=none they would not, and such rows be lost.",
                self.found.table.name,
                len(self.transactions),
                ", ".join(sorted(self.transactions)[:5]),
            )
        return not self.transactions


def _lock_name(found: Found) -> str:
    facts = found.table.facts
    known = facts is not None and facts.type is not TableType.VIEW
    return found.table.quoted if known and found.table.quoted else ANY_TABLE
