"""The leader's duties: it keeps the session key."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headrace.worker.herder.leader_duties import LeaderDuties
from headrace.worker.storage import signing
from headrace.worker.storage.cluster_config import ClusterConfig
from headrace.worker.storage.signing import SessionKey


class Written(list[SessionKey]):
    """The config topic, as far as keys go."""

    def put_session_key(self, key: SessionKey) -> None:
        self.append(key)


class Cluster:
    """A cluster's config, as far as its key goes."""

    def __init__(self, key: SessionKey | None) -> None:
        self.session_key = key


def keep(duties: LeaderDuties, key: SessionKey | None) -> None:
    duties.keep_key(cast(ClusterConfig, Cluster(key)))


@pytest.mark.parametrize("jump_ms", [-(10**9), 10**9])
def test_a_wall_clock_that_is_set_does_not_change_when_a_key_expires(
    jump_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {
        "inter.worker.key.generation.algorithm": "HmacSHA256",
        "inter.worker.key.size": None,
        "inter.worker.key.ttl.ms": 60_000,
    }
    written, now = Written(), [1000.0]
    duties = LeaderDuties(cast(Any, written), cast(Any, None), settings, clock=lambda: now[0])
    key = SessionKey.generate()
    keep(duties, key)
    wall_ms = key.created_ms + jump_ms
    monkeypatch.setattr(signing, "_now_ms", lambda: wall_ms)
    now[0] += 59.0
    keep(duties, key)
    assert written == []
    now[0] += 1.5
    keep(duties, key)
    assert len(written) == 1
    keep(duties, written[0])
    now[0] += 59.0
    keep(duties, written[0])
    assert len(written) == 1


def test_a_key_of_ttl_0_lives_for_ever_and_a_missing_one_is_made() -> None:
    settings: dict[str, Any] = {
        "inter.worker.key.generation.algorithm": "HmacSHA256",
        "inter.worker.key.size": None,
        "inter.worker.key.ttl.ms": 0,
    }
    written = Written()
    duties = LeaderDuties(cast(Any, written), cast(Any, None), settings)
    keep(duties, SessionKey.generate(now_ms=0))
    assert written == []
    keep(duties, None)
    assert len(written) == 1
