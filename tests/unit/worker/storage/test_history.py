"""The revisions of connectors: records of one change count as one, and old ones go."""

from __future__ import annotations

from headrace.worker.model import TargetState
from headrace.worker.requester import Requester
from headrace.worker.storage.history import MOST, MemoryHistory, Move, Revision, Revisions, Snapshot, moves_of

ALICE = Requester("alice", "10.0.0.1")


def at(version: int, target: TargetState = TargetState.STARTED) -> Snapshot:
    return Snapshot({"name": "c", "v": str(version)}, target)


def changed(offset: int, who: Requester | None = None, name: str = "c", at_ms: int = 0) -> Revision:
    return Revision(name, "config", at_ms, at(offset - 1), at(offset), who, offset=offset)


def test_a_revision_is_read_as_it_was_written() -> None:
    moves = (Move({"p": 1}, None, {"o": 2}),)
    for one in (
        changed(3, ALICE),
        changed(3),
        Revision("c", "delete", 7, at(1, TargetState.STOPPED), None, Requester(None, "here"), offset=5),
        Revision("c", "offsets", 7, at(1), at(1), ALICE, moves),
    ):
        assert Revision.of(one.value("configs")) == one


def test_records_of_one_change_are_one_revision_with_the_requester_that_any_knows() -> None:
    known = Revisions()
    known.put(b"1", changed(3), 1)
    known.put(b"2", changed(3, ALICE), 2)
    known.put(b"3", changed(3), 3)
    known.put(b"4", changed(4), 4)
    assert [(one.number, one.requester) for one in known.of("c")] == [(1, ALICE), (4, None)]
    assert (known.latest("c"), known.newest_offset("c"), known.newest_offsets()) == (at(4), 4, 4)
    found = known.at("c", 3)
    assert found is not None
    assert found.requester == ALICE
    assert known.at("c", 5) is None


def test_old_revisions_go_but_for_the_last_of_a_connector_that_exists() -> None:
    known = Revisions()
    known.put(b"1", changed(1, at_ms=1), 1)
    known.put(b"2", changed(2, at_ms=2), 2)
    known.put(b"2b", changed(2, at_ms=2), 3)
    known.put(b"gone", Revision("gone", "delete", 2, at(1), None, offset=4), 4)
    assert known.surplus(2) == [b"1"]
    assert known.surplus(3) == [b"1", b"gone"]
    for key in known.surplus(3):
        known.remove(key)
    assert [one.number for one in known.of("c")] == [2]
    assert known.of("gone") == []
    assert known.existing() == ["c"]


def test_a_connector_has_a_bounded_number_of_revisions() -> None:
    known = Revisions()
    for number in range(MOST + 2):
        known.put(str(number).encode(), changed(number), number)
    assert known.surplus(0) == [b"0", b"1"]


def test_offsets_that_did_not_move_are_no_moves() -> None:
    before = [({"p": 1}, {"o": 1}), ({"p": 2}, {"o": 1}), ({"p": 3}, {"o": 1})]
    after = [({"p": 1}, {"o": 1}), ({"p": 2}, {"o": 2}), ({"p": 4}, {"o": 4})]
    assert moves_of(before, after) == [
        Move({"p": 2}, {"o": 1}, {"o": 2}),
        Move({"p": 3}, {"o": 1}, None),
        Move({"p": 4}, None, {"o": 4}),
    ]


def test_a_worker_alone_remembers_what_changed() -> None:
    history = MemoryHistory()
    history.look({"c": at(1)})
    history.look({"c": at(1)})
    history.look({"c": at(1, TargetState.PAUSED)})
    history.moved("c", [Move({"p": 1}, {"o": 1}, None)])
    history.look({})
    assert [(one.number, one.change) for one in history.revisions("c")] == [
        (1, "config"),
        (2, "state"),
        (3, "offsets"),
        (4, "delete"),
    ]
    assert history.revisions("other") == []
