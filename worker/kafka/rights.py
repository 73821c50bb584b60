"""Names the missing ACL in the error of a refused request."""

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
    """Return the remedy for an operator: `grant its user the ACL Read on Topic 'a'`."""
    shown = ", ".join(f"'{name}'" for name in sorted(names))
    return f"grant its user the ACL {operation} on {kind} {shown}"


def missing_acl(code: int, operation: str, names: Collection[str]) -> str | None:
    """Return the remedy as `acl` if `code` is a refusal; None otherwise."""
    kind = _KINDS.get(code)
    return None if kind is None else acl(operation, kind, names)


def said(error: KafkaError, operation: str, names: Collection[str]) -> str:
    """Return the error's text; adds the missing ACL if it is a refusal."""
    missing = missing_acl(error.code(), operation, names)
    return error.str() if missing is None else f"{error.str()}; {missing}"
