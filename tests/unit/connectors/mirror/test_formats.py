"""The bytes of heartbeats, checkpoints and offset syncs, as MirrorMaker writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.mirror.formats import Checkpoint, FormatError, Heartbeat, OffsetSync

NAMES = st.text(max_size=60)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (Heartbeat("A", "B", 1700000000000), "000141000142", "00000000018bcfe56800"),
        (
            Checkpoint("g", "A.t", 3, 10, 8),
            "0001670003412e7400000003",
            "0000000000000000000a00000000000000080000",
        ),
        (OffsetSync("t", 3, 10, 8), "00017400000003", "000000000000000a0000000000000008"),
        (OffsetSync("ü", 0, -1, -1), "0002c3bc00000000", "ff" * 16),
    ],
)
def test_bytes_are_javas(record: Heartbeat | Checkpoint | OffsetSync, key: str, value: str) -> None:
    assert (record.key().hex(), record.value().hex()) == (key, value)
    assert type(record).of(bytes.fromhex(key), bytes.fromhex(value)) == record


@given(st.builds(Heartbeat, NAMES, NAMES, INT64) | st.builds(OffsetSync, NAMES, INT32, INT64, INT64))
def test_heartbeats_and_syncs_come_back(record: Heartbeat | OffsetSync) -> None:
    assert type(record).of(record.key(), record.value()) == record


@given(st.builds(Checkpoint, NAMES, NAMES, INT32, INT64, INT64, NAMES))
def test_checkpoints_come_back(checkpoint: Checkpoint) -> None:
    assert Checkpoint.of(checkpoint.key(), checkpoint.value()) == checkpoint


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        (Heartbeat, "0001410001", "00000000018bcfe56800"),
        (Heartbeat, "000141000142", "00010000018bcfe56800"),
        (Heartbeat, "ffff", "00000000018bcfe56800"),
        (Checkpoint, "0001670003412e7400000003", ""),
        (OffsetSync, "0001ff00000003", "000000000000000a0000000000000008"),
        (OffsetSync, "00017400000003", "000000000000000a00000000"),
    ],
)
def test_other_bytes_are_refused(kind: type[Heartbeat | Checkpoint | OffsetSync], key: str, value: str) -> None:
    with pytest.raises(FormatError):
        kind.of(bytes.fromhex(key), bytes.fromhex(value))
