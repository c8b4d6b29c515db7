"""Events: their ids, and the exact bytes that are kept and sent."""

from datetime import datetime
from typing import Final

import msgspec

from vintem.kit.clock import public_time
from vintem.kit.ids import Prefix, new_id

VERSION: Final = "v1"

_encode: Final = msgspec.json.Encoder().encode


class Event(msgspec.Struct, frozen=True, gc=False):
    """One change of one record, ready to be kept and sent."""

    company_id: int
    environment: str
    entity_id: str
    sequence: int
    event_id: str
    kind: str
    body: bytes
    created_at: datetime


class Change(msgspec.Struct, frozen=True, gc=False):
    """What happened to a record: where it stood, where it stands, and how it looks now."""

    company_id: int
    environment: str
    entity_id: str
    sequence: int
    group: str
    status: str
    previous_status: str | None
    is_first_time: bool
    data: bytes
    at: datetime
    correlation_id: str = ""
    idempotency_key: str = ""


ID_PREFIXES: Final = {"transaction": "tx", "withdrawal": "wd"}


def event_of(change: Change) -> Event:
    """Write the event of a change.

    The first time a record enters a status, the event's id says so. A status entered again gets an
    id of its own, so that no consumer drops it as a repeat.
    """
    prefix = ID_PREFIXES.get(change.group)
    event_id = (
        f"{prefix}:{change.entity_id}:{change.status.upper()}"
        if prefix is not None and change.is_first_time
        else new_id(Prefix.EVENT)
    )
    kind = f"{change.group}.{change.status}"
    metadata = {}
    if change.correlation_id:
        metadata["correlationId"] = change.correlation_id
    if change.idempotency_key:
        metadata["idempotencyKey"] = change.idempotency_key
    body = _encode(
        {
            "eventId": event_id,
            "event": kind,
            "version": VERSION,
            "environment": change.environment,
            "timestamp": public_time(change.at),
            "sequence": change.sequence,
            "previousStatus": change.previous_status,
            "data": msgspec.Raw(change.data),
            "metadata": metadata,
        }
    )
    return Event(
        company_id=change.company_id,
        environment=change.environment,
        entity_id=change.entity_id,
        sequence=change.sequence,
        event_id=event_id,
        kind=kind,
        body=body,
        created_at=change.at,
    )
