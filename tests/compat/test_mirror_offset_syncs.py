"""Offset syncs translate to the same offsets as in MirrorMaker's own store, after any sequence of syncs."""

from __future__ import annotations

import random

import pytest

from headrace.connectors.mirror.checkpoint.offset_syncs import OffsetSyncs
from headrace.connectors.mirror.formats import OffsetSync
from headrace.plugins.offsets import TopicPartition
from tests.compat.mirror_oracle import MirrorOracle


def sequence(seed: int) -> list[tuple[int, int]]:
    """Syncs as a task writes them: mostly forwards, in small and large steps, now and then again from further back."""
    rng = random.Random(seed)
    upstream, downstream, found = rng.randrange(1000), rng.randrange(1000), []
    typical = rng.choice([1, 3, 100, 100_000])
    for _ in range(rng.randrange(1, 400)):
        found.append((upstream, downstream))
        step = rng.choice([0, 1, 1, typical, rng.randrange(1, 4 * typical)])
        upstream, downstream = upstream + step, downstream + rng.randrange(step, 2 * step + 2)
        if rng.random() < 0.005:
            upstream = rng.randrange(upstream + 1)
    return found


@pytest.mark.parametrize("seed", range(25))
def test_the_same_offsets_as_in_java(mirror_oracle: MirrorOracle, seed: int) -> None:
    syncs = sequence(seed)
    ours = OffsetSyncs()
    for upstream, downstream in syncs:
        ours.add(OffsetSync("t", 0, upstream, downstream))
    rng, last = random.Random(seed), max(upstream for upstream, _ in syncs)
    asked = sorted({*(rng.randrange(last + 10) for _ in range(60)), *(max(0, last - back) for back in range(60))})
    assert [ours.translate(TopicPartition("t", 0), offset) for offset in asked] == mirror_oracle.translated(
        syncs, asked
    )
