"""The ACL that is missing, in the error of a request that a broker refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from confluent_kafka import KafkaError

_KINDS: Final = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "Topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "Group",
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalId",
}


def acl(operation: str, kind: str, names: Collection[str]) -> str:
    """What an operator has to do: `grant its user the ACL Read on Topic 'a'`."""
    shown = ", ".join(f"'{name}'" for name in sorted(names))
    return f"grant its user the ACL {operation} on {kind} {shown}"


def missing_acl(code: int, operation: str, names: Collection[str]) -> str | None:
    """As `acl`, where this code of Kafka's is a refusal, of an operation on things of these names."""
    kind = _KINDS.get(code)
    return None if kind is None else acl(operation, kind, names)


def said(error: KafkaError, operation: str, names: Collection[str]) -> str:
    """The error's text; where it is a refusal, with the ACL that is missing."""
    missing = missing_acl(error.code(), operation, names)
    return error.str() if missing is None else f"{error.str()}; {missing}"
