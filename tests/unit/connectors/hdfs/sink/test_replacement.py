"""A merged file takes the place of others: killed at any point, each row is in a file, and in one at the end."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.sink.commit_marker import CommitMarker
from headrace.connectors.hdfs.sink.replacement import stage
from headrace.connectors.hdfs.stores.local import LocalStore
from headrace.connectors.hdfs.stores.settings import StoreSettings
from headrace.plugins.errors import RetriableError
from tests.unit.connectors.hdfs.sink.test_commit_marker import FOLDER, Unanswered, committed, marker, staged

OLD = [f"topics/orders/x=1/orders+3+{first:010d}+{first + 9:010d}.avro" for first in (0, 10, 20)]
OTHER = "topics/orders/x=2/orders+3+0000000005+0000000025.avro"
MERGED = "topics/orders/x=1/orders+3+0000000000+0000000029.avro"
STEPS = 10
"""Of `replace_as`: two uploads, the marker, the file, three deletions, the marker again, the empty attempt."""


class Killed(LocalStore):
    """Fails as a process that was killed would, before its so manieth change and ever after."""

    def __init__(self, settings: StoreSettings, left: int) -> None:
        super().__init__(settings)
        self.left = left

    def _count(self) -> None:
        if self.left == 0:
            raise RetriableError("killed")
        self.left -= 1

    def upload(self, local: str, path: str) -> None:
        self._count()
        super().upload(local, path)

    def rename(self, source: str, target: str) -> bool:
        self._count()
        return super().rename(source, target)

    def delete(self, path: str) -> None:
        self._count()
        super().delete(path)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """With three small files of a partition in one directory, one in another, and its marker."""
    made = LocalStore(StoreSettings(f"file://{tmp_path}/store"))
    owner = marker(made, "writer")
    owner.take("id")
    paths = [path.removeprefix("topics/orders/") for path in (*OLD, OTHER)]
    owner.commit(30, "rows", staged(made, tmp_path, "rows", *paths))
    return made


def replace_as(owner: CommitMarker, tmp_path: Path, attempt: str = "merge", since: int | None = None) -> None:
    local = tmp_path / "merged"
    local.write_bytes(b"merged")
    stage(owner.store, owner.staging(attempt), str(local), MERGED, OLD)
    owner.replace(attempt, owner.finish()[0] if since is None else since)


def test_a_merged_file_takes_the_place_of_others(store: LocalStore, tmp_path: Path) -> None:
    owner = marker(store, "owner")
    owner.take("id")
    replace_as(owner, tmp_path)
    assert committed(store) == [MERGED, OTHER]
    assert owner.offset == 30
    (left,) = [one.path.rpartition("/")[2] for one in store.entries(FOLDER)]
    assert left.startswith("at+0000000030+id+owner.")


@pytest.mark.parametrize("steps", range(STEPS + 1))
def test_wherever_it_is_killed_each_row_is_in_a_file_and_then_in_one(
    store: LocalStore, tmp_path: Path, steps: int
) -> None:
    killed = marker(Killed(StoreSettings(store.url), 1 + steps), "killed")
    killed.take("id")
    with suppress(RetriableError):
        replace_as(killed, tmp_path)
    between = set(committed(store))
    assert MERGED in between or between >= set(OLD), "briefly twice, but never missing"
    assert max(CommitMarker._ends(killed)) == 29, "also without a token the start position is right"
    found = marker(store, "next").take("id")
    assert found == 30
    assert committed(store) in ([*OLD, OTHER], [MERGED, OTHER])
    assert (committed(store) == [MERGED, OTHER]) == (steps >= 3), "the token's rename is the commit"
    assert len(store.entries(FOLDER)) == 1, "no attempt is left"


@pytest.mark.parametrize("steps", range(3, STEPS))
def test_the_next_commit_of_rows_ends_what_has_begun(store: LocalStore, tmp_path: Path, steps: int) -> None:
    failing = Killed(StoreSettings(store.url), 1 + steps)
    owner = marker(failing, "owner")
    owner.take("id")
    with suppress(RetriableError):
        replace_as(owner, tmp_path)
    failing.left = 100
    owner.commit(40, "rows", staged(store, tmp_path, "rows", "x=1/g"), first=30)
    assert committed(store) == sorted([MERGED, OTHER, "topics/orders/x=1/g"])
    assert owner.offset == 40


@pytest.mark.parametrize("step", ["commit+", "x=1", "at+"])
def test_an_answer_that_is_lost_is_looked_up(store: LocalStore, tmp_path: Path, step: str) -> None:
    unanswered = Unanswered(StoreSettings(store.url))
    owner = marker(unanswered, "owner")
    owner.take("id")
    unanswered.loses = step
    with pytest.raises(RetriableError, match="no answer"):
        replace_as(owner, tmp_path)
    owner.finish()
    assert committed(store) == [MERGED, OTHER]
    assert owner.offset == 30


def test_an_attempt_that_the_store_never_saw_is_deleted_by_the_next(store: LocalStore, tmp_path: Path) -> None:
    failing = Killed(StoreSettings(store.url), 3)  # up to the rename of the marker
    owner = marker(failing, "owner")
    owner.take("id")
    with pytest.raises(RetriableError, match="killed"):
        replace_as(owner, tmp_path)
    assert [one for one in store.entries(FOLDER) if one.is_folder]
    failing.left = 100
    assert owner.finish()[1] == 30
    assert not [one for one in store.entries(FOLDER) if one.is_folder]
    assert committed(store) == [*OLD, OTHER]


def test_a_zombie_replaces_nothing(store: LocalStore, tmp_path: Path) -> None:
    zombie, owner = marker(store, "zombie"), marker(store, "owner")
    zombie.take("id")
    owner.take("id")
    with pytest.raises(RetriableError, match="Another task"):
        replace_as(zombie, tmp_path)
    assert not [one for one in store.entries(owner.folder) if one.is_folder]
    zombie.finish()
    assert committed(store) == [*OLD, OTHER]
    owner.commit(40, "rows", staged(store, tmp_path, "rows", "x=1/g"), first=30)


def test_an_owner_that_has_taken_its_token_back_replaces_nothing_that_it_listed_before(
    store: LocalStore, tmp_path: Path
) -> None:
    zombie, owner = marker(store, "zombie"), marker(store, "owner")
    owner.take("id")
    since, _ = owner.finish()
    zombie.take("id")
    replace_as(zombie, tmp_path, "theirs")
    with pytest.raises(RetriableError, match="Another task"):
        owner.commit(40, "rows", staged(store, tmp_path, "rows", "x=1/g"), first=30)
    owner.resume()
    with pytest.raises(RetriableError, match="listed anew"):
        replace_as(owner, tmp_path, "mine", since)
    assert "mine" not in {one.path.rpartition("/")[2] for one in store.entries(owner.folder)}
    assert committed(store) == [MERGED, OTHER]


def test_a_zombie_that_wakes_up_within_a_swap_deletes_no_file_written_since(store: LocalStore, tmp_path: Path) -> None:
    asleep = Killed(StoreSettings(store.url), 5)  # it was about to delete
    zombie = marker(asleep, "zombie")
    zombie.take("id")
    with pytest.raises(RetriableError, match="killed"):
        replace_as(zombie, tmp_path)
    owner = marker(store, "owner")
    owner.take("id")
    store.delete(MERGED)  # an operator moves it away and has the records written again
    owner.move(0)
    owner.commit(10, "again", staged(store, tmp_path, "again", OLD[0].removeprefix("topics/orders/")), first=0)
    asleep.left = 100
    with pytest.raises(RetriableError, match="Another task"):
        zombie.finish()
    assert committed(store) == [OLD[0], OTHER]


def test_rows_are_never_deleted_without_the_file_that_holds_them(store: LocalStore, tmp_path: Path) -> None:
    failing = Killed(StoreSettings(store.url), 5)
    owner = marker(failing, "owner")
    owner.take("id")
    with pytest.raises(RetriableError, match="killed"):
        replace_as(owner, tmp_path)
    store.delete(MERGED)
    assert marker(store, "next").take("id") == 30
    assert committed(store) == [*OLD, OTHER]


def test_a_file_that_cannot_be_deleted_stops_the_rows_before_they_are_twice_for_good(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = marker(store, "owner")
    owner.take("id")

    def refuse(path: str) -> None:
        raise StoreError(f"no right to delete {path}")

    with monkeypatch.context() as refusing:
        refusing.setattr(store, "delete", refuse)
        for attempt in (lambda: replace_as(owner, tmp_path), owner.resume):
            with pytest.raises(StoreError, match="no right"):
                attempt()
    owner.resume()
    assert committed(store) == [MERGED, OTHER]
