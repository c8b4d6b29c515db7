"""What the trail keeps of an act, and how acts are chained, without input or output."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

GENESIS: Final = bytes(32)
"""What the first act of a company names as the hash before it."""


class ActorKind(StrEnum):
    """Who acts."""

    PERSON = "person"
    SYSTEM = "system"
    OPERATOR = "operator"


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody did something to a company's record; secrets and documents are not in it."""

    company_id: int
    environment: str
    """`live`, `test`, or empty for what belongs to both."""
    at: datetime
    actor_kind: ActorKind
    actor_id: str
    actor_name: str
    role: str
    ip: str
    user_agent: str
    action: str
    """What was done, such as `withdrawal.approved`."""
    target_type: str
    target_id: str
    before: Mapping[str, object] = {}
    after: Mapping[str, object] = {}
    reason: str = ""
    request_id: str = ""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """An act in its place of the chain, as it is written: before and after are JSON."""

    company_id: int
    sequence: int
    previous_hash: bytes
    environment: str
    at: datetime
    actor_kind: ActorKind
    actor_id: str
    actor_name: str
    role: str
    ip: str
    user_agent: str
    action: str
    target_type: str
    target_id: str
    before: str
    after: str
    reason: str
    request_id: str
    hash: bytes = b""
    """Of all the other fields; empty while the act has none."""


class ActFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which acts are asked for; what is None or empty does not matter."""

    environment: str
    subjects: Sequence[str] | None = None
    """The first words of the actions that may be seen."""
    actor_id: str = ""
    action: str = ""
    target: str = ""
    """An id of what was acted upon."""
    since: datetime | None = None
    until: datetime | None = None


def hash_of(link: Link) -> bytes:
    """Compute the hash that the next act of the company will name."""
    return hashlib.sha256(canonical(link)).digest()


def canonical(link: Link) -> bytes:
    """Write an act in the one way that is hashed: each field with its length, in this order."""
    return b"".join(
        b"%d:%b," % (len(field), field) for field in (text.encode() for text in _texts(link))
    )


def _texts(link: Link) -> tuple[str, ...]:
    return (
        str(link.company_id),
        str(link.sequence),
        link.previous_hash.hex(),
        link.environment,
        link.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        link.actor_kind,
        link.actor_id,
        link.actor_name,
        link.role,
        link.ip,
        link.user_agent,
        link.action,
        link.target_type,
        link.target_id,
        link.before,
        link.after,
        link.reason,
        link.request_id,
    )
