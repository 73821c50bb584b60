"""The names by which sink tasks are static members of their consumer group (`group.instance.id`).

Decided: a name is made of the cluster's group.id, the connector and the task, so that whichever worker runs the task
takes over its place; a standalone worker has a name of its own in place of a group.id, because several of them may
share a connector's group (`storage.worker_identity`); loses: without a lasting folder it waits for the session.
Decided: the name ends with a digest of the topics to read and of how many partitions each has; because Kafka gives a
static member that comes back its former assignment without asking what it is subscribed to now, so that what is new
would never be read; loses: after a crash with such a change partitions wait for the former member's session.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_LONGEST: Final = 249
"""What Java's clients take, of letters, digits and these signs."""
_DIGEST: Final = 8
_OTHERS: Final = re.compile(r"[^a-zA-Z0-9._-]")


def instance_id(owner: str, connector: str, task: int) -> str:
    """The name of this task's member, but for its end; no task of another connector or owner has it.

    `owner`: the cluster's group.id, or the standalone worker's own name.
    """
    exact = f"{owner}\0{connector}"
    plain = f"{_OTHERS.sub('_', owner)}-{_OTHERS.sub('_', connector)}"
    # The digest tells "a-b" of cluster "c" from "b" of cluster "c-a", and names that were cut or spelt otherwise.
    end = f"-{task}-{_digest(exact)}"
    return plain[: _LONGEST - len(end) - len("-") - _DIGEST] + end


def with_topics(instance: str, topics: str) -> str:
    """The name's end is of these topics: another subscription is another member."""
    return f"{instance}-{_digest(topics)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
