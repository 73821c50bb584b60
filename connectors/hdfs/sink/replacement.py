"""A merged file replaces the files whose rows it holds, in one commit of the partition's marker.

An attempt of this kind holds the merged file under its final path, and a note:

    <attempt>/topics/orders/x=1/orders+3+0000000000+0000000099.avro
    <attempt>/+replaces      {"file": "topics/orders/x=1/orders+3+0…0+0…99.avro", "replaces": ["…", "…"]}

The marker's commit gives the file its name; then the noted files are deleted. Any task that ends the commit does the
rest.

Decided: a reader may see rows twice for a moment, rather than miss them, because names tell the difference: a file
whose offsets lie within those of another of its directory is about to go. Nothing could tell that rows are missing, and
after `kill -9` that would last until the partition has an owner again. Loses: a reader that counts rows in that moment
and does not look at names counts some twice.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from typing import Final

from headrace.connectors.hdfs.sink.parallel_uploads import each
from headrace.connectors.hdfs.stores.store import Store

NOTE: Final = "+replaces"
"""No path of a file begins so: it stands in the place of `topics.dir`."""


def stage(store: Store, folder: str, local: str, final: str, replaced: Sequence[str]) -> None:
    """Stage a merged file in an attempt's folder. Errors: RetriableError, StoreError; OSError of the local disk."""
    store.upload(local, f"{folder}/{final}")
    with tempfile.TemporaryDirectory() as beside:
        note = os.path.join(beside, NOTE)
        with open(note, "w", encoding="utf-8") as file:
            json.dump({"file": final, "replaces": list(replaced)}, file)
        store.upload(note, f"{folder}/{NOTE}")


def delete_replaced(store: Store, note: str) -> None:
    """Delete the files that the note names, once the merged one has its name. Errors: RetriableError, StoreError.

    Invariant 7: no row is deleted unless the file that holds it, too, is seen under its final name.
    """
    try:
        with store.open(note) as file:
            told = json.loads(file.read())
    except FileNotFoundError:
        return  # whoever ended this commit was faster
    if store.exists(told["file"]):
        each(store.delete, told["replaces"])
