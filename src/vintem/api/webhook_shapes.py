"""The shapes of the Webhooks group."""

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from vintem.api.call import Body, Query, Reply
from vintem.api.paging import PaginationReply
from vintem.kit.clock import PublicTime
from vintem.kit.urls import URL_CHARACTERS_MAX
from vintem.transactions.model import RefundStatus, Status
from vintem.webhooks.model import DisabledReason, State

WITHDRAWAL_STATUSES: Final = (
    "pending",
    "pending_approval",
    "processing",
    "completed",
    "failed",
    "cancelled",
)
SESSION_STATUSES: Final = ("open", "awaiting_payment", "completed", "expired", "cancelled")

EVENT_KINDS: Final = (
    *(f"transaction.{status}" for status in Status),
    *(f"withdrawal.{status}" for status in WITHDRAWAL_STATUSES),
    *(f"checkout.session.{status}" for status in SESSION_STATUSES),
    *(f"refund.{status}" for status in RefundStatus),
    "webhook.disabled",
)

Url = Annotated[str, Meta(max_length=URL_CHARACTERS_MAX)]
Events = Annotated[list[str], Meta(min_length=1, max_length=64, examples=[["transaction.paid"]])]
Description = Annotated[str, Meta(max_length=255)]


class WebhookBody(Body, frozen=True):
    """An address to be told of events; `["*"]` means all of them."""

    url: Url
    events: Events
    description: Description | None = None


class WebhookChangeBody(Body, frozen=True):
    """What shall be otherwise; the rest stays as it is."""

    url: Url | None = None
    events: Events | None = None
    description: Description | None = None
    enabled: bool | None = None


class NothingBody(Body, frozen=True):
    """Nothing needs to be said."""


class ReplayBody(Body, frozen=True):
    """A time of at most 30 days: business days or public times, both inclusive."""

    from_: Annotated[str, Meta(max_length=32, examples=["2026-03-01"])] = msgspec.field(name="from")
    to: Annotated[str, Meta(max_length=32, examples=["2026-03-02"])]


class WebhookQuery(Query, frozen=True):
    """Which addresses are listed."""

    page: int | None = None
    page_size: int = 20
    cursor: str | None = None


class DeliveryQuery(Query, frozen=True):
    """Which deliveries are listed."""

    status: str | None = None
    event: str | None = None
    event_id: str | None = None
    page: int | None = None
    page_size: int = 20
    cursor: str | None = None


class EventQuery(Query, frozen=True):
    """Which events are listed."""

    event: str | None = None
    page: int | None = None
    page_size: int = 20
    cursor: str | None = None


class WebhookReply(Reply, frozen=True):
    """A registered address."""

    id: str
    url: str
    events: Sequence[str]
    description: str | None
    enabled: bool
    disabled_reason: DisabledReason | None
    created_at: PublicTime


class WebhookSecretReply(Reply, frozen=True):
    """A registered address with its secret, which is shown this once."""

    id: str
    url: str
    events: Sequence[str]
    description: str | None
    enabled: bool
    disabled_reason: DisabledReason | None
    secret: Annotated[str, Meta(examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])]
    created_at: PublicTime


class WebhookListReply(Reply, frozen=True):
    """The registered addresses, the newest first."""

    webhooks: Sequence[WebhookReply]
    pagination: PaginationReply


class DeletedReply(Reply, frozen=True):
    """What is gone."""

    id: str
    deleted: bool


class AttemptReply(Reply, frozen=True):
    """One try of a delivery."""

    attempt: int
    at: PublicTime
    status: int | None
    error: str | None
    milliseconds: int


class SentReply(Reply, frozen=True):
    """What was sent with the last try: the body is exactly what was signed."""

    url: str
    headers: dict[str, str]
    body: str


class AnsweredReply(Reply, frozen=True):
    """What was answered to the last try, at most 20 kB of it."""

    status: int
    body: str


class DeliveryReply(Reply, frozen=True):
    """One event on its way to one address."""

    id: str
    webhook_id: str | None
    event_id: str
    event: str
    entity_id: str
    sequence: int
    status: State
    next_attempt_at: PublicTime | None
    created_at: PublicTime
    finished_at: PublicTime | None
    request: SentReply | None
    response: AnsweredReply | None
    attempts: Sequence[AttemptReply]


class DeliveryListReply(Reply, frozen=True):
    """Deliveries to an address, the newest first."""

    deliveries: Sequence[DeliveryReply]
    pagination: PaginationReply


class ReplayReply(Reply, frozen=True):
    """How many events are told again."""

    webhook_id: str
    events: int


class EventReply(Reply, frozen=True):
    """An event exactly as it is delivered."""

    event_id: str
    event: str
    version: str
    environment: str
    timestamp: PublicTime
    sequence: int
    previous_status: str | None
    data: dict[str, Any]
    metadata: dict[str, str]


class EventListReply(Reply, frozen=True):
    """What happened, the newest first."""

    events: list[EventReply]
    pagination: PaginationReply


class EventList(Reply, frozen=True):
    """Events that are written already."""

    events: list[msgspec.Raw]
    pagination: PaginationReply
