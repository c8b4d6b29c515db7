"""The Webhooks group."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from vintem.api.body import validation_refusal
from vintem.api.call import Access, Answer, Call, Data, Route
from vintem.api.paging import read_moment, read_page, shown_pagination
from vintem.api.webhook_shapes import (
    EVENT_KINDS,
    AnsweredReply,
    AttemptReply,
    DeletedReply,
    DeliveryListReply,
    DeliveryQuery,
    DeliveryReply,
    EventList,
    EventListReply,
    EventQuery,
    NothingBody,
    ReplayBody,
    ReplayReply,
    SentReply,
    WebhookBody,
    WebhookChangeBody,
    WebhookListReply,
    WebhookQuery,
    WebhookReply,
    WebhookSecretReply,
)
from vintem.companies.model import Environment, LimitGroup
from vintem.kit.clock import public_time
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, is_id
from vintem.resources import Resources
from vintem.runtime.names import NamesBusyError
from vintem.runtime.outbound import ForbiddenAddressError
from vintem.webhooks import service as webhooks
from vintem.webhooks.listing import DeliveryFilter
from vintem.webhooks.model import (
    EVERY_EVENT,
    REPLAY_MAX,
    Attempt,
    Delivery,
    Endpoint,
    State,
    correlation_id_in,
)
from vintem.webhooks.service import Place, Wishes
from vintem.webhooks.signing import headers_of

NAMES_BUSY_RETRY_SECONDS: Final = 5
MILLISECOND: Final = timedelta(milliseconds=1)


async def create_webhook(call: Call) -> Answer:
    """Register an address."""
    body = call.body_as(WebhookBody)
    wishes = Wishes(body.url, _read_events(body.events), body.description)
    await check_url(call.resources, _place(call), body.url)
    resources = call.resources
    endpoint, secret = await webhooks.register(
        resources.database, resources.sealer, _place(call), wishes, now=call.now
    )
    return Data(_with_secret(endpoint, secret), 201)


async def list_webhooks(call: Call) -> Answer:
    """List the registered addresses."""
    query = call.query_as(WebhookQuery)
    request = read_page(page=query.page, page_size=query.page_size, cursor=query.cursor)
    page = await webhooks.list_endpoints(call.resources.database, _place(call), request)
    where = shown_pagination(request, counted_rows=page.counted_rows, next_cursor=page.next_cursor)
    return Data(WebhookListReply([_shown(each) for each in page.endpoints], where))


async def read_webhook(call: Call) -> Answer:
    """Show a registered address."""
    return Data(
        _shown(await webhooks.get(call.resources.database, _place(call), _webhook_id(call)))
    )


async def change_webhook(call: Call) -> Answer:
    """Change a registered address."""
    body = call.body_as(WebhookChangeBody)
    events = None if body.events is None else _read_events(body.events)
    database, place, webhook_id = call.resources.database, _place(call), _webhook_id(call)
    await webhooks.get(database, place, webhook_id)
    if body.url is not None:
        await check_url(call.resources, place, body.url)
    wishes = Wishes(body.url, events, body.description, body.enabled)
    return Data(_shown(await webhooks.change(database, place, webhook_id, wishes, now=call.now)))


async def delete_webhook(call: Call) -> Answer:
    """Forget an address."""
    webhook_id = _webhook_id(call)
    await webhooks.delete(call.resources.database, _place(call), webhook_id, now=call.now)
    return Data(DeletedReply(webhook_id, deleted=True))


async def rotate_webhook_secret(call: Call) -> Answer:
    """Give an address another secret."""
    resources = call.resources
    endpoint, secret = await webhooks.rotate_secret(
        resources.database, resources.sealer, _place(call), _webhook_id(call), now=call.now
    )
    return Data(_with_secret(endpoint, secret))


async def test_webhook(call: Call) -> Answer:
    """Send a ping."""
    delivery = await webhooks.ping(
        call.resources.database, _place(call), _webhook_id(call), now=call.now
    )
    return Data(_shown_delivery(delivery))


async def list_deliveries(call: Call) -> Answer:
    """List what was sent to an address, and what it answered."""
    query = call.query_as(DeliveryQuery)
    wanted = DeliveryFilter(_read_states(query.status), _read_kind(query.event), query.event_id)
    request = read_page(page=query.page, page_size=query.page_size, cursor=query.cursor)
    page = await webhooks.list_deliveries(
        call.resources.database, _place(call), _webhook_id(call), request, wanted
    )
    where = shown_pagination(
        request,
        counted_rows=page.counted_rows,
        next_cursor=page.next_cursor,
        is_counted_in_part=page.is_counted_in_part,
    )
    return Data(
        DeliveryListReply(
            deliveries=[_shown_delivery(each) for each in page.deliveries], pagination=where
        )
    )


async def resend_delivery(call: Call) -> Answer:
    """Send a delivery once more."""
    delivery_id = call.params["id"]
    if not is_id(delivery_id, Prefix.DELIVERY):
        raise Refusal(ErrorCode.DELIVERY_NOT_FOUND)
    delivery = await webhooks.resend(
        call.resources.database, _place(call), delivery_id, now=call.now
    )
    return Data(_shown_delivery(delivery))


async def replay_events(call: Call) -> Answer:
    """Tell an address once more what happened in a time."""
    body = call.body_as(ReplayBody)
    start = _moment("from", body.from_, is_end=False)
    # Shown times leave out what is below a millisecond: all of the last one belongs to it.
    after = _moment("to", body.to, is_end=True)
    if after <= start:
        raise validation_refusal([{"field": "to", "message": "must not be before from"}])
    if after - start > REPLAY_MAX + MILLISECOND:
        message = f"must be at most {REPLAY_MAX.days} days after from"
        raise validation_refusal([{"field": "to", "message": message}])
    webhook_id, end = _webhook_id(call), after - timedelta.resolution
    count = await webhooks.replay(
        call.resources.database, _place(call), webhook_id, start=start, end=end, now=call.now
    )
    return Data(ReplayReply(webhook_id, count))


async def list_events(call: Call) -> Answer:
    """List what happened."""
    query = call.query_as(EventQuery)
    kind = _read_kind(query.event)
    request = read_page(page=query.page, page_size=query.page_size, cursor=query.cursor)
    page = await webhooks.list_events(
        call.resources.database, _place(call), request, kind=kind, now=call.now
    )
    where = shown_pagination(
        request,
        counted_rows=page.counted_rows,
        next_cursor=page.next_cursor,
        is_counted_in_part=page.is_counted_in_part,
    )
    return Data(EventList([msgspec.Raw(body.encode()) for body in page.bodies], where))


def _place(call: Call) -> Place:
    return Place(call.company.company_id, call.company.environment)


def _webhook_id(call: Call) -> str:
    webhook_id = call.params["id"]
    if not is_id(webhook_id, Prefix.WEBHOOK):
        raise Refusal(ErrorCode.WEBHOOK_NOT_FOUND)
    return webhook_id


def _read_events(events: Sequence[str]) -> Sequence[str]:
    faults = [
        {"field": f"events[{index}]", "message": "is not a kind of event"}
        for index, kind in enumerate(events)
        if kind != EVERY_EVENT and kind not in EVENT_KINDS
    ]
    if faults:
        raise validation_refusal(faults)
    return (EVERY_EVENT,) if EVERY_EVENT in events else tuple(dict.fromkeys(events))


def _read_kind(kind: str | None) -> str | None:
    if kind is not None and kind not in (*EVENT_KINDS, "ping"):
        raise validation_refusal([{"field": "event", "message": "is not a kind of event"}])
    return kind


def _read_states(text: str | None) -> Sequence[State] | None:
    if text is None:
        return None
    words = text.split(",")
    if not all(word in list(State) for word in words):
        message = f"must be a list of: {', '.join(State)}"
        raise validation_refusal([{"field": "status", "message": message}])
    return [State(word) for word in words]


async def check_url(resources: Resources, place: Place, url: str) -> None:
    """Refuse an address that is not called, as its name resolves now."""
    is_test = place.environment == Environment.TEST
    try:
        await resources.outbound.check(
            url,
            allows_loopback=resources.allows_loopback_webhooks and is_test,
            asker=str(place.company_id),
        )
    except NamesBusyError:
        raise Refusal(
            ErrorCode.SERVICE_UNAVAILABLE, retry_after_seconds=NAMES_BUSY_RETRY_SECONDS
        ) from None
    except ForbiddenAddressError as fault:
        raise Refusal(ErrorCode.INVALID_URL, str(fault), details={"field": "url"}) from None


def _moment(field: str, text: str, *, is_end: bool) -> datetime:
    """Read a business day or a public time; of an end, what follows it."""
    faults: list[dict[str, str]] = []
    moment = read_moment(field, text, faults, is_end=is_end)
    if moment is None:
        raise validation_refusal(faults)
    return moment


def _shown(endpoint: Endpoint) -> WebhookReply:
    return WebhookReply(
        id=endpoint.endpoint_id,
        url=endpoint.url,
        events=endpoint.events,
        description=endpoint.description or None,
        enabled=endpoint.is_enabled,
        disabled_reason=endpoint.disabled_reason,
        created_at=public_time(endpoint.created_at),
    )


def _with_secret(endpoint: Endpoint, secret: str) -> WebhookSecretReply:
    return WebhookSecretReply(
        id=endpoint.endpoint_id,
        url=endpoint.url,
        events=endpoint.events,
        description=endpoint.description or None,
        enabled=endpoint.is_enabled,
        disabled_reason=endpoint.disabled_reason,
        secret=secret,
        created_at=public_time(endpoint.created_at),
    )


def _shown_delivery(delivery: Delivery) -> DeliveryReply:
    last = delivery.attempts[-1] if delivery.attempts else None
    is_endpoint = is_id(delivery.endpoint_id, Prefix.WEBHOOK)
    finished_at = delivery.finished_at
    return DeliveryReply(
        id=delivery.delivery_id,
        webhook_id=delivery.endpoint_id if is_endpoint else None,
        event_id=delivery.event_id,
        event=delivery.kind,
        entity_id=delivery.entity_id,
        sequence=delivery.sequence,
        status=delivery.state,
        next_attempt_at=None if delivery.due_at is None else public_time(delivery.due_at),
        created_at=public_time(delivery.created_at),
        finished_at=None if finished_at is None else public_time(finished_at),
        request=None if last is None else _sent(delivery, last),
        response=None if last is None else _answered(last),
        attempts=[
            AttemptReply(
                attempt=each.attempt,
                at=public_time(each.created_at),
                status=each.status,
                error=each.error,
                milliseconds=each.milliseconds,
            )
            for each in delivery.attempts
        ],
    )


def _sent(delivery: Delivery, attempt: Attempt) -> SentReply:
    headers = headers_of(
        message_id=delivery.event_id,
        timestamp=attempt.signed_at,
        signature=attempt.signature,
        correlation_id=correlation_id_in(delivery.body),
    )
    return SentReply(attempt.url, headers, delivery.body)


def _answered(attempt: Attempt) -> AnsweredReply | None:
    return None if attempt.status is None else AnsweredReply(attempt.status, attempt.answer)


def _route(method: str, path: str, **declared: object) -> Route:
    return Route(
        method=method,
        path=path,
        group="Webhooks",
        access=Access.SECRET_KEY,
        limit=LimitGroup.REQUESTS,
        **declared,  # type: ignore[arg-type]
    )


ROUTES = (
    _route(
        "POST",
        "/v1/webhooks",
        handler=create_webhook,
        summary="Register a webhook",
        description=(
            'Tells `url` of every event of the kinds in `events`, or of all with `["*"]`. The'
            " address begins with https, has a public name, and port 443 or 8443. `secret` is"
            " shown this once: deliveries are signed with it by the Standard Webhooks"
            " specification."
        ),
        body=WebhookBody,
        answer=WebhookSecretReply,
        answer_status=201,
        refusals=(ErrorCode.INVALID_URL, ErrorCode.WEBHOOK_LIMIT_REACHED),
    ),
    _route(
        "GET",
        "/v1/webhooks",
        handler=list_webhooks,
        summary="List webhooks",
        description="The newest first.",
        query=WebhookQuery,
        answer=WebhookListReply,
    ),
    _route(
        "GET",
        "/v1/webhooks/{id}",
        handler=read_webhook,
        summary="Read a webhook",
        answer=WebhookReply,
        refusals=(ErrorCode.WEBHOOK_NOT_FOUND,),
    ),
    _route(
        "PATCH",
        "/v1/webhooks/{id}",
        handler=change_webhook,
        summary="Change a webhook",
        description=(
            "With `enabled` true again, what it still waited for is sent. What an address did not"
            " take that answered 410 has ended: replay it."
        ),
        body=WebhookChangeBody,
        answer=WebhookReply,
        refusals=(ErrorCode.WEBHOOK_NOT_FOUND, ErrorCode.INVALID_URL),
    ),
    _route(
        "DELETE",
        "/v1/webhooks/{id}",
        handler=delete_webhook,
        summary="Delete a webhook",
        answer=DeletedReply,
        refusals=(ErrorCode.WEBHOOK_NOT_FOUND,),
    ),
    _route(
        "POST",
        "/v1/webhooks/{id}/rotate-secret",
        handler=rotate_webhook_secret,
        summary="Rotate a webhook's secret",
        description="For 24 hours deliveries carry both signatures, of the new and the old one.",
        body=NothingBody,
        is_body_optional=True,
        answer=WebhookSecretReply,
        refusals=(ErrorCode.WEBHOOK_NOT_FOUND,),
    ),
    _route(
        "POST",
        "/v1/webhooks/{id}/test",
        handler=test_webhook,
        summary="Test a webhook",
        description="Sends the event `ping`, signed like any other. Read the delivery later.",
        body=NothingBody,
        is_body_optional=True,
        answer=DeliveryReply,
        refusals=(ErrorCode.WEBHOOK_NOT_FOUND, ErrorCode.INVALID_STATE),
    ),
    _route(
        "GET",
        "/v1/webhooks/{id}/deliveries",
        handler=list_deliveries,
        summary="List deliveries",
        description=(
            "The newest first, each with its tries, what was sent and what was answered. `status`"
            " takes a list separated by commas; `event` is a kind, `eventId` one event."
        ),
        query=DeliveryQuery,
        answer=DeliveryListReply,
        refusals=(ErrorCode.WEBHOOK_NOT_FOUND,),
    ),
    _route(
        "POST",
        "/v1/webhooks/{id}/replay",
        handler=replay_events,
        summary="Replay events",
        description=(
            "Tells a webhook once more, under the same ids, of every event of its kinds between"
            " `from` and `to`: business days or public times, at most 30 days."
        ),
        body=ReplayBody,
        answer=ReplayReply,
        refusals=(ErrorCode.WEBHOOK_NOT_FOUND, ErrorCode.INVALID_STATE),
    ),
    _route(
        "POST",
        "/v1/webhooks/deliveries/{id}/resend",
        handler=resend_delivery,
        summary="Resend a delivery",
        description="Sends the same event under the same id, from the start of the schedule.",
        body=NothingBody,
        is_body_optional=True,
        answer=DeliveryReply,
        refusals=(ErrorCode.DELIVERY_NOT_FOUND, ErrorCode.INVALID_STATE),
    ),
    _route(
        "GET",
        "/v1/events",
        handler=list_events,
        summary="List events",
        description="Of the last 90 days, the newest first, each exactly as it is delivered.",
        query=EventQuery,
        answer=EventListReply,
    ),
)
