"""Holds a window back until no open transaction can commit another row of it, if the database lists these.

An id is taken, or `now()` is read, before the row's transaction commits; others that took theirs later may have
committed already. A window that ends with one of those is complete once all transactions have ended that may yet commit
a row below its end. So: first find the table's end, then the open transactions, wait until these have ended, and read
up to that end. Transactions that begin meanwhile take ids and times beyond it and are not waited for.

| `snapshot.bound` | waits for |
|---|---|
| writers | transactions that have written to the table: enough for a sequence |
| transactions | those that may yet write, too: needed for `now()`, which is the time when a transaction began |
| none | nothing |
| auto | writers if only ids count, else transactions |

Decided: a transaction that has written nothing for 10 s since it was first seen is taken for a reader, because else
every report, dump or idle connection would stop the stream; loses: rows with the time of a transaction that reads for
longer before it first writes. `timestamp.overlap.ms` finds those.

A standby does not know the primary's transactions, and some databases do not list their own: nothing is waited for
then, and a warning says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection

from headrace.connectors.jdbc.contract.open_transactions import ANY_TABLE, OpenTransactions
from headrace.connectors.jdbc.contract.source_sql import SourceSql
from headrace.connectors.jdbc.contract.tables import TableType
from headrace.connectors.jdbc.source.window_query import FoundWindow
from headrace.connectors.jdbc.source.windows import Mode

log = logging.getLogger(__name__)

READS_ONLY_S: Final = 10.0
_LONG_WAIT_S: Final = 30.0
"""A window that has waited for so long is logged."""
_TIMED_REMEDIES: Final = ("timestamp.delay.interval.ms", "timestamp.overlap.ms")
_COUNTED_REMEDIES: Final = ("incrementing.overlap",)


class SnapshotBound(StrEnum):
    """The transactions that windows wait for, by the setting `snapshot.bound`."""

    AUTO = "auto"
    WRITERS = "writers"
    TRANSACTIONS = "transactions"
    NONE = "none"

    def of(self, mode: Mode) -> SnapshotBound:
        """Its meaning in a mode."""
        if mode is Mode.BULK:
            return SnapshotBound.NONE
        if self is not SnapshotBound.AUTO:
            return self
        return SnapshotBound.TRANSACTIONS if mode.times else SnapshotBound.WRITERS


class TransactionWait:
    """Lets windows through once no row can be committed late into them."""

    def __init__(self, bound: SnapshotBound, transactions: OpenTransactions | None) -> None:
        """`transactions`: None if the database does not list them; then nothing is waited for."""
        self._bound = SnapshotBound.NONE if transactions is None else bound
        self._transactions = transactions
        self._first_seen: dict[str, float] = {}
        self._warned = False
        self.waiting: dict[str, WaitingWindow] = {}
        """The waiting windows, by table name."""

    @classmethod
    def of(cls, values: Mapping[str, Any], mode: Mode, sql: SourceSql) -> TransactionWait:
        """Builds it from parsed settings; warns if late commits matter and the database does not list transactions."""
        bound, transactions = SnapshotBound(values["snapshot.bound"]).of(mode), sql.transactions()
        remedies = _TIMED_REMEDIES if mode.times else _COUNTED_REMEDIES
        is_safe = sql.one_writer or bound is SnapshotBound.NONE or any(values[name] for name in remedies)
        if transactions is None and not is_safe:
            log.warning(
                "This database does not list open transactions: a row that is committed after others with greater "
                "values were read is lost, as by Confluent's connector; set %s to more than transactions take",
                " or ".join(remedies),
            )
        return cls(bound, transactions)

    def settled(self, connection: Connection, found: Iterable[FoundWindow]) -> list[FoundWindow]:
        """The complete windows, among those found now and the waiting ones; the others wait."""
        new = list(found)
        if self._transactions is None or self._bound is SnapshotBound.NONE:
            return new
        ready = [one for one in new if one.is_late]  # that their rows are there is enough
        fresh = {one.table.name: one for one in new if not one.is_late}
        if not fresh and not self.waiting:
            return ready
        # Now that their ends are known: an open transaction may commit below them, one that begins later does not.
        windows = [*fresh.values(), *(one.found for one in self.waiting.values())]
        still = self._open(connection, self._transactions, windows)
        for name, waiting in list(self.waiting.items()):
            if waiting.ends(still[name], self._transactions):
                del self.waiting[name]
                ready.append(waiting.found)
        for name, one in fresh.items():
            if still[name]:
                self.waiting[name] = WaitingWindow(one, still[name])
            else:
                ready.append(one)
        return ready

    def _open(
        self, connection: Connection, transactions: OpenTransactions, windows: Iterable[FoundWindow]
    ) -> dict[str, frozenset[str]]:
        """For each window's table, the transactions that it would wait for if it were found now."""
        keys = {one.table.name: _lock_name(one) for one in windows}
        if transactions.is_standby(connection):
            self._warn_of_standby()
            return dict.fromkeys(keys, frozenset())
        writers = transactions.writers(connection, set(keys.values()))
        others: frozenset[str] = frozenset()
        if self._bound is SnapshotBound.TRANSACTIONS:
            others = self._may_write(transactions.all(connection))
        return {name: writers[key] | others for name, key in keys.items()}

    def _warn_of_standby(self) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "This database server is a standby, which does not list open transactions: rows that are "
                "committed late can be lost; read from the primary, or set timestamp.delay.interval.ms, "
                "timestamp.overlap.ms or incrementing.overlap"
            )

    def _may_write(self, transactions: Mapping[str, bool]) -> frozenset[str]:
        now = time.monotonic()
        self._first_seen = {one: self._first_seen.get(one, now) for one in transactions}
        return frozenset(
            one for one, wrote in transactions.items() if wrote or now - self._first_seen[one] < READS_ONLY_S
        )


@dataclass
class WaitingWindow:
    """A window that waits for transactions which were open when it was found."""

    found: FoundWindow
    transactions: frozenset[str]
    since: float = field(default_factory=time.monotonic)
    logged: bool = False

    def ends(self, still_open: frozenset[str], by: OpenTransactions) -> bool:
        """True if all of them have ended; logs a long wait."""
        self.transactions &= still_open
        if self.transactions and not self.logged and time.monotonic() - self.since > _LONG_WAIT_S:
            self.logged = True
            log.info(
                "New rows of %s wait for %d open transaction(s), which may commit rows that come before them: %s "
                "(%s). With snapshot.bound=none they would not wait, and such rows would be lost.",
                self.found.table.name,
                len(self.transactions),
                ", ".join(sorted(self.transactions)[:5]),
                by.shown_in,
            )
        return not self.transactions


def _lock_name(found: FoundWindow) -> str:
    facts = found.table.facts
    known = facts is not None and facts.type is not TableType.VIEW
    return found.table.quoted if known and found.table.quoted else ANY_TABLE
