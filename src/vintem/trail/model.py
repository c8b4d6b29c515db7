"""What the trail keeps of an act, without input or output."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec


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
