"""Commits by renaming one marker: whole, once, and by one owner only, also if they are interrupted."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.file_settings import NamingSettings
from headrace.connectors.hdfs.sink.commit_marker import CommitMarker
from headrace.connectors.hdfs.sink.names import Names
from headrace.connectors.hdfs.stores.local import LocalStore
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.plugins.errors import RetriableError
from headrace.plugins.offsets import TopicPartition

PARTITION = TopicPartition("orders", 3)
FOLDER = "topics/+tmp/orders/3"


class Unanswered(LocalStore):
    """Renames, and then has lost the answer, once."""

    def __init__(self, settings: StoreSettings) -> None:
        super().__init__(settings)
        self.loses = ""

    def rename(self, source: str, target: str) -> bool:
        answer = super().rename(source, target)
        if self.loses and self.loses in target:
            self.loses = ""
            raise RetriableError("no answer")
        return answer


class Interrupted(LocalStore):
    """Fails as a process that was killed would, before its so manieth change."""

    def __init__(self, settings: StoreSettings, left: int) -> None:
        super().__init__(settings)
        self.left = left

    def _count(self) -> None:
        if self.left == 0:
            raise RetriableError("killed")
        self.left -= 1

    def rename(self, source: str, target: str) -> bool:
        self._count()
        return super().rename(source, target)

    def delete(self, path: str) -> None:
        self._count()
        super().delete(path)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(StoreSettings(f"file://{tmp_path}/store"))


def marker(store: LocalStore, owner: str) -> CommitMarker:
    return CommitMarker(store, PARTITION, owner, Names(NamingSettings("topics"), ".avro"))


def staged(store: LocalStore, tmp_path: Path, attempt: str, *names: str) -> list[tuple[str, str]]:
    local = tmp_path / "local"
    local.write_bytes(attempt.encode())
    files = [(f"{FOLDER}/{attempt}/topics/orders/{name}", f"topics/orders/{name}") for name in names]
    for path, _ in files:
        store.upload(str(local), path)
    return files


def committed(store: LocalStore) -> list[str]:
    return sorted(one.path for one in store.walk("topics/orders"))


def test_the_first_owner_goes_on_where_kafka_says(store: LocalStore) -> None:
    assert marker(store, "a").take("id") is None


def test_without_a_token_the_names_say_where_to_go_on(store: LocalStore, tmp_path: Path) -> None:
    local = tmp_path / "local"
    local.write_bytes(b"")
    for name in (
        "x=1/orders+3+0000000000+0000000009.avro",
        "x=2/orders+3+0000000004+0000000019.avro",
        "orders+2+0+99.avro",
    ):
        store.upload(str(local), f"topics/orders/{name}")
    assert marker(store, "a").take("id") == 20
    assert marker(store, "b").take("id") == 20


def test_a_commit_moves_the_token_and_leaves_nothing_behind(store: LocalStore, tmp_path: Path) -> None:
    first = marker(store, "a")
    first.take("id")
    first.commit(10, "one", staged(store, tmp_path, "one", "x=1/f", "x=2/f"))
    assert first.offset == 10
    assert committed(store) == ["topics/orders/x=1/f", "topics/orders/x=2/f"]
    (left,) = [one.path.rpartition("/")[2] for one in store.entries(FOLDER)]
    assert left.startswith("at+0000000010+id+a.")
    assert marker(store, "b").take("id") == 10


def test_a_zombie_commits_nothing(store: LocalStore, tmp_path: Path) -> None:
    zombie, owner = marker(store, "zombie"), marker(store, "owner")
    zombie.take("id")
    files = staged(store, tmp_path, "late", "f")
    owner.take("id")
    with pytest.raises(RetriableError, match=r"Another task writes orders-3 .*topics\.dir"):
        zombie.commit(10, "late", files)
    with pytest.raises(RetriableError, match="Another task"):
        zombie.move(10)
    owner.commit(5, "mine", staged(store, tmp_path, "mine", "g"))
    assert committed(store) == ["topics/orders/g"]


@pytest.mark.parametrize("steps", range(8))
def test_wherever_a_commit_ends_it_is_whole_or_nothing(store: LocalStore, tmp_path: Path, steps: int) -> None:
    killed = marker(Interrupted(StoreSettings(store.url), 1 + steps), "killed")
    killed.take("id")
    names = ["x=1/f", "x=2/f", "x=3/f"]
    with suppress(RetriableError):
        killed.commit(10, "try", staged(store, tmp_path, "try", *names))
    found = marker(store, "next").take("id")
    assert (found, committed(store)) in [(None, []), (10, [f"topics/orders/{name}" for name in names])]
    assert (found == 10) == (steps >= 1), "the first rename is the commit"
    assert len(store.entries(FOLDER)) == 1, "no attempt is left"


@pytest.mark.parametrize("steps", range(1, 7))
def test_the_owner_itself_ends_what_it_has_begun(store: LocalStore, tmp_path: Path, steps: int) -> None:
    failing = Interrupted(StoreSettings(store.url), 1 + steps)
    owner = marker(failing, "owner")
    owner.take("id")
    with suppress(RetriableError):  # its last step is of no account
        owner.commit(10, "try", staged(store, tmp_path, "try", "x=1/f", "x=2/f", "x=3/f"))
    failing.left = 100
    owner.resume()
    assert owner.offset == 10
    assert len(committed(store)) == 3


@pytest.mark.parametrize("step", ["commit+", "x=2", "at+"])
def test_an_answer_that_is_lost_is_looked_up(store: LocalStore, tmp_path: Path, step: str) -> None:
    unanswered = Unanswered(StoreSettings(store.url))
    owner = marker(unanswered, "owner")
    owner.take("id")
    unanswered.loses = step
    with pytest.raises(RetriableError, match="no answer"):
        owner.commit(10, "try", staged(store, tmp_path, "try", "x=1/f", "x=2/f"))
    owner.resume()
    assert owner.offset == 10
    assert committed(store) == ["topics/orders/x=1/f", "topics/orders/x=2/f"]
    owner.commit(20, "next", staged(store, tmp_path, "next", "g"))
    assert owner.offset == 20


def test_tokens_of_a_topic_that_was_made_again_count_no_more(store: LocalStore, caplog: Any) -> None:
    first = marker(store, "a")
    first.take("o/+d")
    first.move(50)
    assert marker(store, "b").take("o/+d") == 50
    assert marker(store, "c").take("ne+/") is None
    assert "deleted and made again" in caplog.text


def test_a_file_of_somebody_else_is_not_overwritten(store: LocalStore, tmp_path: Path) -> None:
    local = tmp_path / "theirs"
    local.write_bytes(b"theirs")
    store.upload(str(local), "topics/orders/f")
    owner = marker(store, "a")
    owner._create("id")
    owner.take("id")
    with pytest.raises(StoreError, match="Move it away"):
        owner.commit(10, "try", staged(store, tmp_path, "try", "f"))
    store.delete("topics/orders/f")
    owner.resume()
    assert committed(store) == ["topics/orders/f"]


def test_a_token_that_was_deleted_is_said(store: LocalStore, tmp_path: Path) -> None:
    owner = marker(store, "a")
    owner.take("id")
    store.delete(FOLDER)
    with pytest.raises(StoreError, match=r"is gone .* Restart the task"):
        owner.commit(10, "try", staged(store, tmp_path, "try", "f"))


def test_many_owners_at_random_lose_and_repeat_nothing(store: LocalStore, tmp_path: Path) -> None:
    random_ = random.Random(1)
    owners = [marker(Interrupted(StoreSettings(store.url), 0), f"o{number}") for number in range(3)]
    written = 0
    for number in range(200):
        owner = random_.choice(owners)
        owner.store.left = random_.randrange(8)  # type: ignore[attr-defined]
        try:
            at = owner.take("id") or 0
            owner.commit(at + 1, f"t{number}", staged(store, tmp_path, f"t{number}", f"{at}"))
        except RetriableError:
            continue
        written += 1
    last = marker(store, "last").take("id") or 0
    assert written > 20
    assert sorted(int(path.rpartition("/")[2]) for path in committed(store)) == list(range(last))


def test_passing_records_never_takes_a_commit_back(store: LocalStore, tmp_path: Path) -> None:
    unanswered = Unanswered(StoreSettings(store.url))
    owner = marker(unanswered, "owner")
    owner.take("id")
    unanswered.loses = "commit+"
    with pytest.raises(RetriableError, match="no answer"):
        owner.commit(10, "try", staged(store, tmp_path, "try", "f"))
    owner.move_on(5)  # the position before the batch whose answer was lost
    assert owner.offset == 10
    owner.move_on(12)
    assert marker(store, "next").take("id") == 12


def test_an_owner_whose_token_a_zombie_took_last_takes_it_back(store: LocalStore, tmp_path: Path) -> None:
    zombie, owner = marker(store, "zombie"), marker(store, "owner")
    owner.take("id")
    zombie.take("id")  # it was about to when it left the group
    zombie.commit(5, "theirs", staged(store, tmp_path, "theirs", "f"))
    with pytest.raises(RetriableError, match="Another task"):
        owner.commit(5, "mine", staged(store, tmp_path, "mine", "f"))
    owner.resume()
    assert owner.offset == 5, "what the other one has committed stays"
    owner.commit(9, "next", staged(store, tmp_path, "next", "g"))
    assert committed(store) == ["topics/orders/f", "topics/orders/g"]


def test_a_late_job_repeats_no_record(store: LocalStore, tmp_path: Path) -> None:
    owner = marker(store, "owner")
    owner.take("id")
    owner.commit(30, "job", staged(store, tmp_path, "job", "f"), first=10)
    with pytest.raises(RetriableError, match=r"offset 10 .* up to offset 29"):
        owner.commit(20, "late", staged(store, tmp_path, "late", "g"), first=10)
    assert owner.offset == 30
    assert committed(store) == ["topics/orders/f"]
