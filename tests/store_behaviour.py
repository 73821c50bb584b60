"""Tests of every store, whatever its home; each home's own class inherits them."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.connectors.hdfs.errors import StoreError
from headrace.connectors.hdfs.stores.store import Store

_IN_ANOTHER_PROCESS = """
import pickle, sys
store = pickle.loads(sys.stdin.buffer.read())
store.upload(sys.argv[1], sys.argv[2])
print(sorted(entry.path for entry in store.entries("")))
store.close()
"""


def local_file(folder: Path, text: str = "some text") -> str:
    """A file of this machine."""
    path = folder / "staged"
    path.unlink(missing_ok=True)
    path.write_text(text)
    return str(path)


def text_of(store: Store, path: str) -> str:
    """The text of a file in the store."""
    with store.open(path) as file:
        return bytes(file.read()).decode()


class StoreBehaviour:
    """Inherited by a class for each home, which has a fixture `store`: an empty one."""

    many = 2_500

    def test_an_upload_is_there_at_once_with_its_folders(self, store: Store, tmp_path: Path) -> None:
        store.upload(local_file(tmp_path), "topics/logs/partition=0/logs+0+0000000000+0000000009.txt")
        [entry] = store.entries("topics/logs/partition=0")
        assert entry.path == "topics/logs/partition=0/logs+0+0000000000+0000000009.txt"
        assert (entry.is_folder, entry.size) == (False, 9)
        assert entry.modified_ms > 1_600_000_000_000
        assert text_of(store, entry.path) == "some text"
        [folder] = store.entries("topics")
        assert (folder.path, folder.is_folder) == ("topics/logs", True)

    def test_an_upload_takes_the_place_of_a_former_one(self, store: Store, tmp_path: Path) -> None:
        store.upload(local_file(tmp_path, "first and longer"), "a/b")
        store.upload(local_file(tmp_path, "second"), "a/b")
        assert text_of(store, "a/b") == "second"
        assert [entry.path for entry in store.walk("")] == ["a/b"]

    def test_an_empty_file_is_a_file(self, store: Store, tmp_path: Path) -> None:
        store.upload(local_file(tmp_path, ""), "a/empty")
        assert [(entry.path, entry.size) for entry in store.entries("a")] == [("a/empty", 0)]
        assert text_of(store, "a/empty") == ""

    def test_names_are_kept_as_they_are(self, store: Store, tmp_path: Path) -> None:
        names = ["a/city=Köln %3A+x/é &#?=.txt", "a/+tmp/ü", "a/100%/b%20c"]
        for name in names:
            store.upload(local_file(tmp_path, name), name)
        assert sorted(entry.path for entry in store.walk("a")) == sorted(names)
        assert [text_of(store, name) for name in names] == names

    def test_what_is_not_there_has_no_entries(self, store: Store, tmp_path: Path) -> None:
        store.upload(local_file(tmp_path), "a/b")
        assert store.entries("nowhere/at/all") == []
        assert list(store.walk("nowhere/at/all")) == []
        assert [store.exists(path) for path in ("a", "a/b", "a/c", "x/y", "a/b/c")] == [True, True, False, False, False]
        with pytest.raises(FileNotFoundError):
            store.open("a/c")

    def test_a_walk_finds_all_files_of_all_folders(self, store: Store) -> None:
        wanted = {f"many/{'flat' if n % 2 else f'deep/{n % 7}'}/{n:05}" for n in range(self.many)}
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(store.create, sorted(wanted)))
        found = [entry.path for entry in store.walk("many")]
        assert len(found) == self.many
        assert set(found) == wanted
        assert len(store.entries("many/flat")) == self.many // 2

    def test_create_never_takes_a_name_twice(self, store: Store) -> None:
        store.create("a/token")
        with pytest.raises(FileExistsError):
            store.create("a/token")

    def test_delete_takes_files_and_folders_and_nothing_else(self, store: Store, tmp_path: Path) -> None:
        for path in ("a/b", "a/c/d", "a/c/e/f", "ab/c"):
            store.upload(local_file(tmp_path), path)
        store.delete("a/c")
        assert sorted(entry.path for entry in store.walk("")) == ["a/b", "ab/c"]
        store.delete("a/b")
        store.delete("a/b")
        store.delete("x/y")
        assert [entry.path for entry in store.walk("")] == ["ab/c"]

    def test_parquet_is_read_from_any_place(self, store: Store, tmp_path: Path) -> None:
        table = pa.table({"n": range(100_000), "text": [f"row {n}" for n in range(100_000)]})
        pq.write_table(table, tmp_path / "rows.parquet", row_group_size=10_000)
        store.upload(str(tmp_path / "rows.parquet"), "rows.parquet")
        with store.open("rows.parquet") as file:
            found = pq.ParquetFile(file)
            assert found.read_row_group(7, columns=["n"])["n"].to_pylist() == list(range(70_000, 80_000))
            assert found.read().equals(table)

    def test_another_process_uses_it(self, store: Store, tmp_path: Path) -> None:
        store.upload(local_file(tmp_path), "here")
        command = [sys.executable, "-c", _IN_ANOTHER_PROCESS, local_file(tmp_path), "there"]
        done = subprocess.run(command, input=pickle.dumps(store), capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr.decode()
        assert done.stdout.decode().strip() == "['here', 'there']"

    def test_a_path_stays_below_the_root(self, store: Store) -> None:
        for path in ("../up", "a/../../up", "/etc/passwd", "a//b", "a/./b", ""):
            with pytest.raises(StoreError, match="no path below"):
                store.create(path)

    def test_a_closed_store_opens_again(self, store: Store) -> None:
        store.create("a")
        store.close()
        assert store.exists("a")


class RenamingBehaviour(StoreBehaviour):
    """Of those that rename."""

    def test_a_file_is_renamed_into_new_folders(self, store: Store, tmp_path: Path) -> None:
        assert store.renames
        store.upload(local_file(tmp_path), "+tmp/1/a")
        assert store.rename("+tmp/1/a", "final/x/a") is True
        assert [entry.path for entry in store.walk("")] == ["final/x/a"]
        assert text_of(store, "final/x/a") == "some text"

    def test_no_source_is_told(self, store: Store) -> None:
        store.create("a/at+5+other")
        assert store.rename("a/at+5+me", "a/at+6+me") is False
        assert store.rename("a/at+5+me", "a/at+5+other") is False
        assert store.rename("x/y", "new/folder/y") is False

    def test_nothing_is_overwritten(self, store: Store, tmp_path: Path) -> None:
        store.upload(local_file(tmp_path, "old"), "a/old")
        store.upload(local_file(tmp_path, "new"), "a/new")
        with pytest.raises(FileExistsError):
            store.rename("a/new", "a/old")
        assert [text_of(store, path) for path in ("a/old", "a/new")] == ["old", "new"]

    def test_a_folder_is_no_place_for_a_file(self, store: Store) -> None:
        store.create("a/file")
        store.create("b/taken/other")
        with pytest.raises(FileExistsError):
            store.rename("a/file", "b/taken")
        assert sorted(entry.path for entry in store.walk("")) == ["a/file", "b/taken/other"]

    def test_one_of_many_that_rename_wins(self, store: Store) -> None:
        for round_number in range(5):
            store.create(f"{round_number}/token")
            barrier, won = threading.Barrier(4), []

            def take(owner: int, at: int = round_number) -> None:
                barrier.wait()  # noqa: B023 - the threads end before the next round
                if store.rename(f"{at}/token", f"{at}/of+{owner}"):
                    won.append(owner)  # noqa: B023

            threads = [threading.Thread(target=take, args=(owner,)) for owner in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert [f"{round_number}/of+{owner}" for owner in won] == [e.path for e in store.entries(f"{round_number}")]
            assert len(won) == 1
