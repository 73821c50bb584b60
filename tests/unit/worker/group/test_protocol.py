"""The bytes of the group protocol: Apache's own, recorded from its jar and worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.worker.group.protocol import CONFIG_MISMATCH, Assignment, Subscription
from headrace.worker.model import TaskId

URL = "http://w1:8083/"
C0 = TaskId("c", 0)
HELD = Assignment(2, 0, "m-1", URL, 7, ("c",), (C0,))

SUBSCRIPTIONS = {
    "0000000f687474703a2f2f77313a383038332f0000000000000007": Subscription(URL, 7, None, 0),
    "0001000f687474703a2f2f77313a383038332f0000000000000007ffffffff": Subscription(URL, 7, None, 1),
    "0002000f687474703a2f2f77313a383038332f00000000000000070000003d0002000000036d2d31000f687474703a2f2f77313a383038332f"
    "00000000000000070000000100016300000002ffffffff000000000000000000000000": Subscription(URL, 7, HELD, 2),
    "0001000c687474703a2f2f6d653a322f0000000000000009ffffffff": Subscription("http://me:2/", 9, None, 1),
}
ASSIGNMENTS = {
    "0000000000036d2d31000f687474703a2f2f77313a383038332f00000000000000070000000100016300000002ffffffff"
    "00000000": replace(HELD, version=0),
    "0002000000036d2d31000f687474703a2f2f77313a383038332f00000000000000070000000100016300000002ffffffff0000000000000000"
    "00000000": HELD,
    "0001000100036d2d31000f687474703a2f2f77313a383038332f0000000000000009000000000000000000000000": Assignment(
        1, CONFIG_MISMATCH, "m-1", URL, 9
    ),
    "000200000006" + b"lead-1".hex() + "000b" + b"http://h:1/".hex() + "0000000000000007"
    "00000002" + "00026331" + "00000002ffffffff00000000" + "00026332" + "0000000100000003"
    "00000001" + "000172" + "00000002ffffffff00000000" + "000004d2": Assignment(
        2, 0, "lead-1", "http://h:1/", 7, ("c1",), (TaskId("c1", 0), TaskId("c2", 3)), ("r",), (TaskId("r", 0),), 1234
    ),
}


@pytest.mark.parametrize(("data", "said"), SUBSCRIPTIONS.items(), ids=range(len(SUBSCRIPTIONS)))
def test_subscriptions_are_apaches_bytes(data: str, said: Subscription) -> None:
    assert said.encode().hex() == data
    assert Subscription.decode(bytes.fromhex(data)) == said


@pytest.mark.parametrize(("data", "said"), ASSIGNMENTS.items(), ids=range(len(ASSIGNMENTS)))
def test_assignments_are_apaches_bytes(data: str, said: Assignment) -> None:
    assert said.encode().hex() == data
    assert Assignment.decode(bytes.fromhex(data)) == said


def test_any_order_and_elements_of_one_name_are_read() -> None:
    head = bytes.fromhex("000200000000" + "0000" + "0000000000000001")
    elements = "00000003" + "00016300000001" + "00000001" + "00016200000001" + "ffffffff"
    elements += "00016300000003" + "00000000" + "ffffffff" + "00000001"
    read = Assignment.decode(head + bytes.fromhex(elements))
    assert read.connectors == ("b", "c")
    assert read.tasks == (TaskId("c", 1), TaskId("c", 0))


@pytest.mark.parametrize("cut", [4, 8])
def test_missing_ends_are_nothing(cut: int) -> None:
    """The delay may be missing, and what is revoked with it."""
    assert Assignment.decode(HELD.encode()[:-cut]) == HELD


def test_null_lists_are_empty() -> None:
    head = bytes.fromhex("0002000000000000" + "0000000000000001")
    read = Assignment.decode(head + bytes.fromhex("ffffffff" * 2 + "00000005"))
    assert (read.connectors, read.revoked_connectors, read.delay_ms) == ((), (), 5)


def test_a_subscription_without_its_end_holds_nothing() -> None:
    assert Subscription.decode(Subscription(URL, 7, None, 1).encode()[:-4]).allocation is None


def test_higher_versions_are_read_as_the_highest_known() -> None:
    assert Assignment.decode(replace(HELD, version=7).encode()) == HELD
    assert Subscription.decode(Subscription(URL, 7, HELD, 9).encode()) == Subscription(URL, 7, HELD, 2)


@pytest.mark.parametrize("data", [b"", b"\x00", HELD.encode()[:20], b"\x00\x02\x00\x00\xff\xff"])
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="assignment"):
        Assignment.decode(data)
    with pytest.raises(ValueError, match="subscription"):
        Subscription.decode(data)


def test_a_negative_version_is_refused_in_apaches_words() -> None:
    with pytest.raises(ValueError, match="Unsupported subscription version: -1"):
        Subscription.decode(b"\xff\xff" + Subscription(URL, 7).encode()[2:])


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="32768 bytes"):
        replace(HELD, connectors=("x" * 32768,)).encode()


def test_holding_is_everything_and_nothing_revoked() -> None:
    given = replace(HELD, revoked_connectors=("d",), revoked_tasks=(TaskId("d", 1),), delay_ms=5)
    assert given.holding(["a"], [TaskId("a", 0)]) == replace(HELD, connectors=("a",), tasks=(TaskId("a", 0),))


names = st.text(max_size=5)
connectors = st.lists(names, unique=True, max_size=4).map(tuple)
tasks = st.lists(st.builds(TaskId, names, st.integers(0, 2**31 - 1)), unique=True, max_size=6)
int64 = st.integers(-(2**63), 2**63 - 1)
assignments = st.builds(
    Assignment,
    version=st.sampled_from([1, 2]),
    error=st.sampled_from([0, 1]),
    leader=names,
    leader_url=names,
    offset=int64,
    connectors=connectors,
    tasks=tasks.map(tuple),
    revoked_connectors=connectors,
    revoked_tasks=tasks.map(tuple),
    delay_ms=st.integers(0, 2**31 - 1),
)


def sorted_tasks(said: Assignment) -> Assignment:
    return replace(said, tasks=tuple(sorted(said.tasks)), revoked_tasks=tuple(sorted(said.revoked_tasks)))


@given(assignments)
def test_assignments_come_back(said: Assignment) -> None:
    assert sorted_tasks(Assignment.decode(said.encode())) == sorted_tasks(said)


@given(st.builds(Subscription, names, int64, st.none() | assignments.map(sorted_tasks), st.sampled_from([1, 2])))
def test_subscriptions_come_back(said: Subscription) -> None:
    read = Subscription.decode(said.encode())
    held = None if read.allocation is None else sorted_tasks(read.allocation)
    assert replace(read, allocation=held) == said


@given(st.binary(max_size=80))
def test_no_bytes_bring_anything_but_a_value_error(data: bytes) -> None:
    for decode in (Assignment.decode, Subscription.decode):
        try:
            decode(data)
        except ValueError:
            continue
