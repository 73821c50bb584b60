"""Names of sink tasks as static members of their consumer group (`group.instance.id`).

Decided: a name is made of the cluster's group.id, the connector and the task, so that the task keeps its membership on
any worker. A standalone worker has its own name in place of a group.id, because several of them may share a connector's
group (`storage.worker_identity`); loses: without a lasting folder it waits for the session timeout.
Decided: the name ends with a digest of the topics and their partition counts, because Kafka gives a returning static
member its former assignment without looking at its present subscription, so new partitions would never be read; loses:
after a crash with such a change partitions wait for the former member's session timeout.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

_LONGEST: Final = 249
"""The longest name for Java's clients; allowed are letters, digits and `._-`."""
_DIGEST: Final = 8
_OTHERS: Final = re.compile(r"[^a-zA-Z0-9._-]")


def instance_id(owner: str, connector: str, task: int) -> str:
    """The name of this task's member, without the digest of topics; unique among connectors and owners.

    `owner`: the cluster's group.id, or the standalone worker's own name.
    """
    exact = f"{owner}\0{connector}"
    plain = f"{_OTHERS.sub('_', owner)}-{_OTHERS.sub('_', connector)}"
    # The digest tells "a-b" of cluster "c" from "b" of cluster "c-a", and names that were cut or changed.
    end = f"-{task}-{_digest(exact)}"
    return plain[: _LONGEST - len(end) - len("-") - _DIGEST] + end


def with_topics(instance: str, topics: str) -> str:
    """The name with the digest of these topics: another subscription is another member."""
    return f"{instance}-{_digest(topics)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
