"""Events, their exact bytes and ids; who is told of them, how often it is tried, and when."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
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
    postback_url: str | None = None
    """The one more address that hears of this record."""


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
    postback_url: str | None = None


ID_PREFIXES: Final = {"transaction": "tx", "withdrawal": "wd"}


class _Postback(msgspec.Struct, rename="camel"):
    postback_url: str | None = None


_decode_postback: Final = msgspec.json.Decoder(type=_Postback).decode


def postback_url_in(record: str) -> str | None:
    """The address that hears of a record beside the company's endpoints."""
    return _decode_postback(record).postback_url


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    correlation_id: str = ""


class _Told(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_decode_told: Final = msgspec.json.Decoder(type=_Told).decode


def correlation_id_in(body: bytes | str) -> str:
    """What the call that an event comes from was to be found by, if it said so."""
    return _decode_told(body).metadata.correlation_id


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
    kind = f"{change.group}.{change.status}" if change.status else change.group
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
        postback_url=change.postback_url,
    )


ENDPOINTS_MAX: Final = 16
EVERY_EVENT: Final = "*"
WISHED_SECONDS_MAX: Final = 24 * 3_600.0
OLD_SECRET_KEPT: Final = timedelta(hours=24)
EVENTS_KEPT: Final = timedelta(days=90)
REPLAY_MAX: Final = timedelta(days=30)
IN_FLIGHT_PER_LANE_MAX: Final = 4
IN_FLIGHT_PER_COMPANY_MAX: Final = 16


class DisabledReason(StrEnum):
    """Why an endpoint is not told of anything any more."""

    MERCHANT = "merchant"
    GONE = "gone"
    UNREACHABLE = "unreachable"


class State(StrEnum):
    """How far a delivery is."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"
    ENDED = "ended"


class Secrets(msgspec.Struct, frozen=True):
    """What calls are signed with, sealed: the secret, and the one before while it still signs."""

    sealed: bytes
    old_sealed: bytes | None = None
    old_until: datetime | None = None

    def signing_at(self, now: datetime) -> Sequence[bytes]:
        """The sealed secrets that sign now, the newest first."""
        if self.old_sealed is None or self.old_until is None or self.old_until <= now:
            return [self.sealed]
        return [self.sealed, self.old_sealed]


class Endpoint(msgspec.Struct, frozen=True):
    """An address that a company has registered, and what it wants to hear of."""

    company_id: int
    endpoint_id: str
    environment: str
    url: str
    events: Sequence[str]
    description: str
    is_enabled: bool
    disabled_reason: DisabledReason | None
    secrets: Secrets
    sequence: int
    created_at: datetime


class Lane(msgspec.Struct, frozen=True):
    """Where deliveries go at a pace of its own: an endpoint, or the origin of postbacks."""

    company_id: int
    name: str
    environment: str
    failures_in_row: int = 0
    retry_at: datetime | None = None
    failing_since: datetime | None = None

    @property
    def key(self) -> tuple[int, str]:
        """What names it among the lanes of all companies."""
        return (self.company_id, self.name)


class Parcel(msgspec.Struct, frozen=True, gc=False):
    """A delivery that is due, with all that is needed to send it."""

    company_id: int
    delivery_id: str
    environment: str
    lane: str
    entity_id: str
    sequence: int
    event_id: str
    body: bytes
    url: str
    is_postback: bool
    secrets: Secrets | None
    attempts: int
    tries: int
    asked_at: datetime


class Attempt(msgspec.Struct, frozen=True):
    """One try of a delivery: what was sent and what was answered; no status without an answer."""

    attempt: int
    url: str
    signed_at: int
    signature: str
    status: int | None
    error: str | None
    answer: str
    milliseconds: int
    created_at: datetime
    retry_after_seconds: float | None = None
    """How long the other side asked to be left alone."""

    @property
    def is_success(self) -> bool:
        """Say whether the other side took it."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_gone(self) -> bool:
        """Say whether the other side wants no more."""
        return self.status == 410

    @property
    def asks_to_wait(self) -> bool:
        """Say whether the other side named a time because it has too much to do."""
        return self.status in {429, 503} and self.retry_after_seconds is not None


class Delivery(msgspec.Struct, frozen=True):
    """A delivery as a company sees it."""

    delivery_id: str
    endpoint_id: str
    event_id: str
    kind: str
    entity_id: str
    sequence: int
    body: str
    state: State
    due_at: datetime | None
    created_at: datetime
    finished_at: datetime | None
    attempts_made: int
    attempts: Sequence[Attempt] = ()


class Pace(msgspec.Struct, frozen=True):
    """How long things may take, and how long is waited between them."""

    call_seconds_max: float = 15.0
    retry_seconds: Sequence[float] = (
        5.0,
        5 * 60.0,
        30 * 60.0,
        2 * 3_600.0,
        5 * 3_600.0,
        10 * 3_600.0,
        14 * 3_600.0,
        20 * 3_600.0,
        24 * 3_600.0,
    )
    jitter: float = 0.2
    hold_back: timedelta = timedelta(hours=1)
    disable_after: timedelta = timedelta(hours=120)
    breaker_failures: int = 5
    breaker_seconds: float = 30.0
    breaker_seconds_max: float = 15 * 60.0
    quick_seconds: float = 1.0
    lease_seconds: float = 10.0


class Outcome(msgspec.Struct, frozen=True):
    """What a try means for its delivery: over, or due again."""

    state: State
    due_at: datetime | None


def outcome_of(attempt: Attempt, *, tries: int, pace: Pace, now: datetime) -> Outcome:
    """Decide what comes after a try, the so many-th since the delivery was asked for."""
    if attempt.is_success:
        return Outcome(State.DELIVERED, None)
    if tries > len(pace.retry_seconds):
        return Outcome(State.FAILED, None)
    # Scattered, so that what failed together does not come back together.
    scatter = random.uniform(1 - pace.jitter, 1 + pace.jitter)  # noqa: S311 - not a secret
    seconds = pace.retry_seconds[tries - 1] * scatter
    wished = wished_seconds(attempt, tries=tries, pace=pace)
    return Outcome(State.PENDING, now + timedelta(seconds=max(seconds, wished)))


def wished_seconds(attempt: Attempt, *, tries: int, pace: Pace) -> float:
    """How long the other side is left alone because it asked for it.

    That is at most twice as long as without, and a day: the promise of the schedule stands.
    """
    if not attempt.asks_to_wait or tries > len(pace.retry_seconds):
        return 0.0
    assert attempt.retry_after_seconds is not None
    longest = min(2 * pace.retry_seconds[tries - 1], WISHED_SECONDS_MAX)
    return min(attempt.retry_after_seconds, longest)


def lane_after(lane: Lane, attempt: Attempt, *, tries: int, pace: Pace, now: datetime) -> Lane:
    """The lane after a try: its circuit breaker opens for longer with each failure in a row."""
    if attempt.is_success:
        return Lane(lane.company_id, lane.name, lane.environment)
    failures = lane.failures_in_row + 1
    beyond = failures - pace.breaker_failures
    seconds = wished_seconds(attempt, tries=tries, pace=pace)
    if beyond >= 0:
        seconds = max(seconds, pace.breaker_seconds * 2 ** min(beyond, 20))
    retry_at = None
    if seconds:
        retry_at = now + timedelta(seconds=min(seconds, pace.breaker_seconds_max))
    return Lane(
        lane.company_id, lane.name, lane.environment, failures, retry_at, lane.failing_since or now
    )
