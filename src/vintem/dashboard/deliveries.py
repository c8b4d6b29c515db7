"""Deliveries: what was sent to which address, what it answered, and sending it again."""

from collections.abc import Mapping
from functools import partial
from typing import Final

import msgspec

from vintem.api.call import Answer
from vintem.api.webhook_shapes import EVENT_KINDS
from vintem.dashboard.answers import go, page
from vintem.dashboard.asked import cursor_of, period_of
from vintem.dashboard.forms import Form
from vintem.dashboard.page import Page, sent, shown
from vintem.dashboard.visit import Visit
from vintem.kit.errors import ErrorCode, Refusal
from vintem.kit.ids import Prefix, is_id
from vintem.kit.paging import PAGE_SIZE_MAX, PageRequest
from vintem.members.model import Permission
from vintem.runtime.db import Connection
from vintem.trail import service as trail
from vintem.webhooks import service as webhooks
from vintem.webhooks.model import Delivery, Endpoint, correlation_id_in
from vintem.webhooks.search import Search, Sought
from vintem.webhooks.service import RESENT_AT_ONCE_MAX, Place
from vintem.webhooks.signing import headers_of

ROWS_MAX: Final = 50
PLACE_CHARACTERS_MAX: Final = 40
PING: Final = "ping"
OUTCOMES: Final = (
    ("", "Todas"),
    (Sought.DELIVERED, "Entregues"),
    (Sought.PENDING, "Aguardando ou tentando de novo"),
    (Sought.FAILED, "Falharam"),
    (Sought.REFUSED, "Última resposta 4xx"),
    (Sought.BROKEN, "Última resposta 5xx"),
    (Sought.SILENT, "Última sem resposta"),
)


class Asked(msgspec.Struct, frozen=True):
    """Which deliveries the address asks for."""

    status: str = ""
    kind: str = ""
    endpoint: str = ""
    since: str = ""
    until: str = ""
    id: str = ""
    after: str = ""


class ResendForm(Form, frozen=True):
    """Which of the failed ones are sent again."""

    kind: str = ""
    endpoint: str = ""
    since: str = ""
    until: str = ""


async def show_deliveries(visit: Visit) -> Answer:
    """List deliveries, the newest first."""
    asked = visit.asked(Asked)
    if asked.id:
        found = await _find_id(visit, asked.id)
        if found:
            return go(visit.href(f"/deliveries/{found}"))
    wanted = _search(visit, asked)
    page_found = await webhooks.search_deliveries(
        visit.resources.database, _place(visit), wanted, rows_max=ROWS_MAX
    )
    filters = {
        name: text
        for name, text in msgspec.structs.asdict(asked).items()
        if name not in {"id", "after"}
    }
    older = ""
    if page_found.next_cursor is not None:
        older = visit.href("/deliveries", **filters, after=page_found.next_cursor.encode())
    endpoints = await _endpoints(visit)
    return page(
        visit,
        "deliveries.html",
        title="Entregas",
        asked=asked,
        found=page_found,
        older=older,
        newest=visit.href("/deliveries", **filters) if asked.after else "",
        filters=filters,
        outcomes=OUTCOMES,
        kinds=[("", "Todos"), *((kind, kind) for kind in (*EVENT_KINDS, PING))],
        endpoints=[
            ("", "Todos"),
            *((each.endpoint_id, each.url) for each in endpoints),
        ],
        place_of=partial(_place_of, {each.endpoint_id: each.url for each in endpoints}),
        is_unknown_id=bool(asked.id),
        can_resend_failed=wanted.sought is Sought.FAILED and bool(page_found.sightings),
        resent_max=RESENT_AT_ONCE_MAX,
    )


async def show_delivery(visit: Visit) -> Answer:
    """Show what was sent, what was answered, and every try."""
    delivery = await _find(visit)
    endpoint = await _endpoint_of(visit, delivery)
    is_postback = not is_id(delivery.endpoint_id, Prefix.WEBHOOK)
    last = delivery.attempts[-1] if delivery.attempts else None
    headers = {}
    if last is not None:
        headers = headers_of(
            message_id=delivery.event_id,
            timestamp=last.signed_at,
            signature=last.signature,
            correlation_id=correlation_id_in(delivery.body),
        )
    return page(
        visit,
        "delivery.html",
        title="Entrega",
        delivery=delivery,
        endpoint=endpoint,
        is_postback=is_postback,
        last=last,
        headers=headers,
        body=_shown_body(visit, delivery),
        may_resend=is_postback or (endpoint is not None and endpoint.is_enabled),
    )


async def resend(visit: Visit) -> Answer:
    """Send a delivery once more."""
    delivery = await _find(visit)
    await visit.form(Form)

    async def write(block: Connection) -> None:
        await webhooks.resend(block, _place(visit), delivery.delivery_id, now=visit.call.now)
        after = {"event": delivery.event_id}
        await trail.record(
            block, visit.act("delivery.resent", "delivery", delivery.delivery_id, after=after)
        )

    where = f"/deliveries/{delivery.delivery_id}"
    try:
        await visit.resources.database.atomically(write)
    except Refusal as refusal:
        if refusal.code is not ErrorCode.INVALID_STATE:
            raise
        return go(visit.href(where, said="webhook-is-disabled"))
    return go(visit.href(where, said="delivery-resent"))


async def resend_failed(visit: Visit) -> Answer:
    """Send again what has failed of a filter."""
    form = await visit.form(ResendForm)
    asked = Asked(
        status=Sought.FAILED,
        kind=form.kind,
        endpoint=form.endpoint,
        since=form.since,
        until=form.until,
    )

    async def write(block: Connection) -> int:
        count = await webhooks.resend_failed(
            block, _place(visit), _search(visit, asked), now=visit.call.now
        )
        after = {**_given(asked), "deliveries": count}
        target = form.endpoint or str(visit.environment)
        await trail.record(
            block, visit.act("delivery.failed_resent", "webhook", target, after=after)
        )
        return count

    count = await visit.resources.database.atomically(write)
    said = "deliveries-resent" if count else "deliveries-not-resent"
    filters = {**_given(asked), "status": ""}
    return go(visit.href("/deliveries", **filters, said=said))


# What an event says of a person, by the names that it has in records; a boleto's page does, too.
PERSONAL: Final = frozenset(
    {"name", "email", "phone", "document", "address", "holderName", "beneficiary", "ip"}
    | {"pixKey", "walletAddress", "digitableLine", "barcode", "qrCode", "pixQrCode", "metadata"}
    | {"url", "boletoUrl"}
)
HIDDEN: Final = "***"


def _shown_body(visit: Visit, delivery: Delivery) -> str:
    """Write an event for people; without what it says of a person, for who may not see that."""
    body = delivery.body.encode()
    if not visit.can(Permission.PERSONAL_READ):
        body = msgspec.json.encode(_without_persons(msgspec.json.decode(body)))
    return msgspec.json.format(body, indent=2).decode()


def _without_persons(value: object) -> object:
    if isinstance(value, dict):
        return {
            name: HIDDEN if name in PERSONAL and each is not None else _without_persons(each)
            for name, each in value.items()
        }
    if isinstance(value, list):
        return [_without_persons(each) for each in value]
    return value


def _place(visit: Visit) -> Place:
    return Place(visit.member.company_id, visit.environment)


def _place_of(urls: Mapping[str, str], delivery: Delivery) -> str:
    """Where a delivery goes, in a few characters."""
    if not is_id(delivery.endpoint_id, Prefix.WEBHOOK):
        return "postbackUrl"
    url = urls.get(delivery.endpoint_id)
    return "Webhook excluído" if url is None else url.partition("://")[2][:PLACE_CHARACTERS_MAX]


def _given(asked: Asked) -> dict[str, str]:
    return {name: text for name, text in msgspec.structs.asdict(asked).items() if text}


def _search(visit: Visit, asked: Asked) -> Search:
    """Read a filter; what makes no sense asks for nothing."""
    since, until = period_of(asked.since, asked.until)
    return Search(
        sought=Sought(asked.status) if asked.status in set(Sought) else None,
        kind=asked.kind if asked.kind in (*EVENT_KINDS, PING) else "",
        endpoint_id=asked.endpoint,
        since=since,
        until=until,
        cursor=cursor_of(asked.after),
    )


async def _find_id(visit: Visit, text: str) -> str:
    """Find a delivery by its own id, or the last one of an event by the event's."""
    if is_id(text, Prefix.DELIVERY):
        try:
            found = await webhooks.get_delivery(visit.resources.database, _place(visit), text)
        except Refusal:
            return ""
        return found.delivery_id
    return await webhooks.find_by_event(visit.resources.database, _place(visit), text) or ""


async def _find(visit: Visit) -> Delivery:
    delivery_id = visit.call.params["id"]
    if not is_id(delivery_id, Prefix.DELIVERY):
        raise Refusal(ErrorCode.DELIVERY_NOT_FOUND)
    return await webhooks.get_delivery(visit.resources.database, _place(visit), delivery_id)


async def _endpoints(visit: Visit) -> list[Endpoint]:
    everything = PageRequest(page=1, page_size=PAGE_SIZE_MAX, cursor=None)
    found = await webhooks.list_endpoints(visit.resources.database, _place(visit), everything)
    return list(found.endpoints)


async def _endpoint_of(visit: Visit, delivery: Delivery) -> Endpoint | None:
    try:
        return await webhooks.get(visit.resources.database, _place(visit), delivery.endpoint_id)
    except Refusal:
        return None


PAGES: Final[tuple[Page, ...]] = (
    shown("/deliveries", show_deliveries, Permission.WEBHOOKS_READ, "Entregas"),
    sent("/deliveries/resend", resend_failed, Permission.RESEND, "Reenviar as que falharam"),
    shown("/deliveries/{id}", show_delivery, Permission.WEBHOOKS_READ, "Entrega"),
    sent("/deliveries/{id}/resend", resend, Permission.RESEND, "Reenviar entrega"),
)
